// Enabled actions in the order in which they became possible.
#pragma once

#include <cstddef>
#include <vector>

#include "lockstep/sim/fiber/action.h"

namespace lockstep::sim {

/// A first-in-first-out ring that keeps its memory.
class ReadyQueue {
 public:
  void clear();

  void push(ActionId id) {
    if (n_ == ring_.size()) grow();
    ring_[(head_ + n_++) & (ring_.size() - 1)] = id;
  }

  ActionId pop() {
    const ActionId id = ring_[head_];
    head_ = (head_ + 1) & (ring_.size() - 1);
    --n_;
    return id;
  }

  /// The one that pop() returns after `ahead` other calls; kNoAction: there are fewer.
  ActionId peek(std::size_t ahead) const {
    if (ahead >= n_) return kNoAction;
    return ring_[(head_ + ahead) & (ring_.size() - 1)];
  }

  /// Requires: not empty.
  ActionId front() const { return ring_[head_]; }

  bool empty() const { return n_ == 0; }

  /// Takes `id` out wherever it is: linear, for the rare withdrawal. False: it is not in.
  bool remove(ActionId id);

 private:
  void grow();

  std::vector<ActionId> ring_ = std::vector<ActionId>(64);
  std::size_t head_ = 0;
  std::size_t n_ = 0;
};

}  // namespace lockstep::sim
