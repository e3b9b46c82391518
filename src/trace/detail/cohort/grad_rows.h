// What ranks measured of gradients that differ in nothing else: a row per rank.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/trace/event.h"

namespace lockstep::detail {

/// The rows of one event, by rank:
///
///     digests   [rank 0: tensor 0, 1, ...] [rank 1: tensor 0, 1, ...] ...
///     sketches  the same, or none at all
///
/// A reader copies or compares all of them at once. There are as many rows as the highest rank that
/// has come needs, or up to twice as many. Keeps its capacity.
class GradRows {
 public:
  /// Requires: lists of this length, from ranks below `n_ranks`.
  void start(std::size_t n_ranks, const GradEvent& shape) {
    n_ranks_ = n_ranks;
    n_tensors_ = shape.digests.size();
    n_sketches_ = shape.sketches.size();
    n_rows_ = 0;
  }

  void set(std::size_t rank, const GradEvent& grad) {
    if (rank >= n_rows_) {
      n_rows_ = std::min(n_ranks_, 2 * (rank + 1));
      digests_.resize(std::max(digests_.size(), n_rows_ * n_tensors_));
      sketches_.resize(std::max(sketches_.size(), n_rows_ * n_sketches_));
    }
    std::copy(grad.digests.begin(), grad.digests.end(), digests_.data() + rank * n_tensors_);
    std::copy(grad.sketches.begin(), grad.sketches.end(), sketches_.data() + rank * n_sketches_);
  }

  /// For which there is room.
  std::size_t n_rows() const { return n_rows_; }

  /// Of all ranks. Requires: each has been set.
  std::span<const std::uint64_t> digests() const {
    return std::span(digests_).first(n_ranks_ * n_tensors_);
  }

  std::span<const Sketch> sketches() const {
    return std::span(sketches_).first(n_ranks_ * n_sketches_);
  }

  /// `shape` with what this rank measured. Valid until the next set() or start().
  GradEvent of(std::size_t rank, const GradEvent& shape) const {
    GradEvent own = shape;
    own.digests = std::span(digests_).subspan(rank * n_tensors_, n_tensors_);
    own.sketches = std::span(sketches_).subspan(rank * n_sketches_, n_sketches_);
    own.number = 0;
    return own;
  }

 private:
  std::size_t n_ranks_ = 0;
  std::size_t n_tensors_ = 0;
  std::size_t n_sketches_ = 0;
  std::size_t n_rows_ = 0;
  std::vector<std::uint64_t> digests_;
  std::vector<Sketch> sketches_;
};

}  // namespace lockstep::detail
