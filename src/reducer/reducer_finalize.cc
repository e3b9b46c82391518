// The reducer after the graph: waiting for buckets and publishing their contents.
#include <algorithm>
#include <string>
#include <utility>

#include "lockstep/autograd/engine.h"
#include "lockstep/reducer/reducer.h"
#include "lockstep/reducer/reducer_error.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep {

void Reducer::on_backward_end() {
  const bool reduced = require_finalize_ && next_bucket_ == buckets_.size();
  if (!in_backward_) return;
  // The callback of the outermost pass comes last; until then there may be more gradients.
  if (is_nested_backward(*runtime_) && !reduced) return;
  if (!is_nested_backward(*runtime_)) in_backward_ = false;
  if (trace_ != nullptr) trace_->record_local();
  if (reduced) {
    if (static_graph_ && should_rebuild()) push_unused();
    finalize();
  }
  if (trace_ != nullptr) trace_->record_outcome(reduced);
}

// Parameters that never receive a gradient end a static graph's order of readiness.
void Reducer::push_unused() {
  for (std::size_t i = 0; i < reachable_.size(); ++i) {
    if (reachable_[i] == 0) ready_order_.push_back(static_cast<std::int32_t>(i));
  }
}

void Reducer::delay_all_reduce() {
  in_backward_ = false;
  if (trace_ != nullptr) trace_->record_local();
  launch_used_map();
  require_finalize_ = true;
  if (active_ranks_.valid()) fix_divisor();
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    reachable_[i] = firings_[i] > 0 ? 1 : 0;
    fill_slot(i);
  }
  for (Bucket& bucket : buckets_) launch(bucket);
  if (!expect_hooks_) {
    settle();
    throw ReducerError(
        "expect_autograd_hooks_ INTERNAL ASSERT FAILED: the first backward of a static graph was "
        "not a synchronising one");
  }
  finalize();
  if (trace_ != nullptr) trace_->record_outcome(true);
}

// What is under way writes into memory that may end with an exception.
void Reducer::settle() {
  for (Bucket& bucket : buckets_) {
    if (bucket.work.valid()) std::exchange(bucket.work, Work()).wait_or_throw();
    if (bucket.pending != nullptr) std::exchange(bucket.pending, nullptr)->wait();
  }
  if (used_map_work_.valid()) std::exchange(used_map_work_, Work()).wait_or_throw();
}

void Reducer::await_after_backward(std::vector<Work> works) {
  for (Work& work : works) extra_works_.push_back(std::move(work));
}

void Reducer::finalize() {
  expect_hooks_ = false;
  require_finalize_ = false;
  backward_counted_ = false;
  for (Bucket& bucket : buckets_) take_result(bucket);
  divisor_ = static_cast<double>(group_->size());
  for (const Work& work : std::exchange(extra_works_, {})) work.wait_or_throw();
  if (!tracks_use_) return;
  if (used_map_work_.valid()) std::exchange(used_map_work_, Work()).wait_or_throw();
  if (!static_graph_) std::fill(local_used_.begin(), local_used_.end(), 0);
}

void Reducer::take_result(Bucket& bucket) {
  if (bucket.is_sparse) {
    const auto index = static_cast<std::size_t>(bucket.members.front());
    leaves_[index].state().sparse_grad = std::exchange(bucket.rows, {});
    return;
  }
  if (bucket.pending == nullptr) {
    const Work work = std::exchange(bucket.work, Work());
    work.wait_or_throw();
    bucket.lent.take_back(bucket.flat, work);
    for (const std::int32_t member : bucket.members) {
      const auto index = static_cast<std::size_t>(member);
      publish(index, slots_[index].view);
    }
    return;
  }
  const Tensor result = std::exchange(bucket.pending, nullptr)->wait();
  if (!result.defined() || result.n_elems() != bucket.flat.n_elems()) {
    throw ReducerError("a communication hook's result has " +
                       (result.defined() ? std::to_string(result.n_elems()) : std::string("no")) +
                       " elements, and its bucket " + std::to_string(bucket.flat.n_elems()));
  }
  std::int64_t offset = 0;
  for (const std::int32_t member : bucket.members) {
    const auto index = static_cast<std::size_t>(member);
    const Shape& shape = leaves_[index].shape();
    publish(index, result.slice(offset, shape));
    offset += shape.n_elems();
  }
}

// The used map is waited for only when a parameter needs it.
bool Reducer::is_globally_unused(std::size_t index) {
  if (!tracks_use_ || local_used_[index] != 0) return false;
  if (used_map_work_.valid()) std::exchange(used_map_work_, Work()).wait_or_throw();
  return global_used_[index] == 0;
}

void Reducer::publish(std::size_t index, const Tensor& result) {
  if (is_globally_unused(index)) return;
  const Variable& leaf = leaves_[index];
  const Tensor& view = slots_[index].view;
  Kernels& kernels = runtime_->kernels();
  if (!options_.gradient_as_bucket_view) {
    if (!leaf.grad().defined()) {
      leaf.set_grad(Tensor::empty(*runtime_, view.shape(), view.dtype()));
    }
    kernels.copy(leaf.grad(), result);
    return;
  }
  if (!result.is_alias_of(view)) kernels.copy(view, result);
  if (!leaf.grad().defined()) {
    leaf.set_grad(view);
  } else if (!leaf.grad().is_alias_of(view)) {
    throw ReducerError(
        "Detected at least one parameter gradient is not the expected DDP bucket view with "
        "gradient_as_bucket_view=True. This may happen (for example) if multiple allreduce hooks "
        "were registered onto the same parameter. If you hit this error, please file an issue with "
        "a minimal repro.");
  }
}

}  // namespace lockstep
