// Numbers from 0 with weights, of which one is drawn in proportion.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::sim {

/// A Fenwick tree: setting a weight and finding a place take the logarithm of the size.
class WeightedSet {
 public:
  void clear() {
    tree_.assign(1, 0);
    weights_.clear();
  }

  std::size_t size() const { return weights_.size(); }

  std::uint64_t total() const { return total_of(weights_.size()); }

  std::uint64_t weight(std::size_t i) const { return weights_[i]; }

  /// Appends a number of weight 0. Returns: the number.
  std::size_t append() {
    const std::size_t i = weights_.size();
    weights_.push_back(0);
    // A new node covers what its range already holds.
    const std::size_t node = i + 1;
    const std::size_t below = node - (node & (~node + 1));
    tree_.push_back(total_of(i) - total_of(below));
    return i;
  }

  void set(std::size_t i, std::uint64_t weight) {
    const std::uint64_t change = weight - weights_[i];  // Modulo 2^64: sums come out right.
    weights_[i] = weight;
    for (std::size_t node = i + 1; node < tree_.size(); node += node & (~node + 1)) {
      tree_[node] += change;
    }
  }

  /// The number whose weight covers the place `at`, weights laid end to end.
  /// Requires: at < total().
  std::size_t at(std::uint64_t at) const {
    std::size_t node = 0;
    std::size_t step = 1;
    while (step * 2 < tree_.size()) step *= 2;
    for (; step > 0; step /= 2) {
      const std::size_t next = node + step;
      if (next >= tree_.size() || tree_[next] > at) continue;
      node = next;
      at -= tree_[next];
    }
    return node;
  }

 private:
  std::uint64_t total_of(std::size_t n) const {
    std::uint64_t sum = 0;
    for (std::size_t node = n; node > 0; node -= node & (~node + 1)) sum += tree_[node];
    return sum;
  }

  std::vector<std::uint64_t> tree_ = std::vector<std::uint64_t>(1);
  std::vector<std::uint64_t> weights_;
};

}  // namespace lockstep::sim
