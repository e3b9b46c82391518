#include "lockstep/reducer/use_tracker.h"

#include <algorithm>
#include <utility>

#include "lockstep/autograd/graph.h"
#include "lockstep/reducer/reducer_error.h"

namespace lockstep {

UseTracker::UseTracker(std::vector<Variable> leaves, bool searches, bool is_compat_113)
    : leaves_(std::move(leaves)), searches_(searches), is_compat_113_(is_compat_113) {
  if (searches_) track();
}

void UseTracker::track() {
  reachable_.assign(leaves_.size(), 1);
  local_used_.assign(leaves_.size(), 0);
  global_used_.assign(leaves_.size(), 0);
}

void UseTracker::set_static_graph() {
  static_graph_ = true;
  firings_.assign(leaves_.size(), 0);
  firings_left_.assign(leaves_.size(), 0);
  track();
}

void UseTracker::begin(std::span<const Variable> outputs) {
  if (static_graph_) {
    firings_left_ = firings_;
  } else if (searches_) {
    find_reachable(outputs, leaves_, reachable_);
  }
}

// The versions count differently: backwards in 2.7, synchronising forwards in 1.13.
bool UseTracker::is_first_static(std::int64_t n_forwards) const {
  return static_graph_ && (is_compat_113_ ? n_forwards : n_backwards_) == 1;
}

bool UseTracker::count(std::size_t index, std::int64_t n_forwards) {
  if (!is_tracking()) return false;
  if (static_graph_ && !std::exchange(backward_counted_, true)) ++n_backwards_;
  const bool first = is_first_static(n_forwards);
  if ((first || is_searching()) && leaves_[index].has_grad()) local_used_[index] = 1;
  if (first) ++firings_[index];
  return first;
}

bool UseTracker::is_last_firing(std::size_t index) {
  if (!static_graph_) return true;
  if (firings_left_[index] <= 0) throw ReducerError(std::string(kGraphChangedText));
  return --firings_left_[index] == 0;
}

bool UseTracker::is_use_promised(std::size_t index, std::int64_t n_forwards) const {
  return !is_compat_113_ && (is_searching() || is_first_static(n_forwards)) &&
         local_used_[index] != 0;
}

void UseTracker::end_first_static() {
  for (std::size_t i = 0; i < firings_.size(); ++i) reachable_[i] = firings_[i] > 0 ? 1 : 0;
}

std::int64_t UseTracker::unused_bytes() const {
  std::int64_t n_bytes = 0;
  for (std::size_t i = 0; i < reachable_.size(); ++i) {
    if (reachable_[i] != 0) continue;
    const Tensor& data = leaves_[i].data();
    n_bytes += data.n_elems() * size_of(data.dtype());
  }
  return n_bytes;
}

void UseTracker::launch(ProcessGroup& group, const OpOptions& options) {
  std::copy(local_used_.begin(), local_used_.end(), global_used_.begin());
  work_ = group.all_reduce(Memory::of(std::span(global_used_)), ReduceOp::kSum, options);
}

void UseTracker::settle() {
  if (work_.valid()) std::exchange(work_, Work()).wait_or_throw();
}

void UseTracker::shadow(ProcessGroup& group, const OpOptions& options) {
  group.all_reduce(Memory::of(std::span(global_used_)), ReduceOp::kSum, options).wait_or_throw();
}

bool UseTracker::is_globally_unused(std::size_t index) {
  if (!is_tracking() || local_used_[index] != 0) return false;
  settle();
  return global_used_[index] == 0;
}

void UseTracker::end_iteration() {
  if (!is_tracking()) return;
  settle();
  if (!static_graph_) std::fill(local_used_.begin(), local_used_.end(), 0);
}

}  // namespace lockstep
