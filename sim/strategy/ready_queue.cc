#include "lockstep/sim/strategy/detail/ready_queue.h"

#include <utility>

namespace lockstep::sim {

void ReadyQueue::clear() {
  head_ = 0;
  n_ = 0;
}

bool ReadyQueue::remove(ActionId id) {
  const std::size_t n = n_;
  bool found = false;
  for (std::size_t i = 0; i < n; ++i) {
    const ActionId next = pop();
    if (next == id && !found) {
      found = true;
    } else {
      push(next);
    }
  }
  return found;
}

void ReadyQueue::grow() {
  std::vector<ActionId> larger(ring_.size() * 2);
  for (std::size_t i = 0; i < n_; ++i) larger[i] = ring_[(head_ + i) & (ring_.size() - 1)];
  std::swap(ring_, larger);
  head_ = 0;
}

}  // namespace lockstep::sim
