// The reducer inside a backward pass: from gradients to launched buckets.
#include <algorithm>
#include <utility>

#include "lockstep/autograd/engine.h"
#include "lockstep/reducer/reducer.h"
#include "lockstep/reducer/reducer_error.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep {

void Reducer::enter_backward() {
  if (in_backward_) return;
  in_backward_ = true;
  queue_outer_callback(*runtime_, *this);
}

void Reducer::on_grad_increment(std::size_t index, const Tensor& increment) {
  if (trace_ == nullptr) return;
  enter_backward();
  trace_->on_increment(index, increment, whole_gradient(leaves_[index]));
}

void Reducer::on_grad_ready(std::size_t index) {
  if (expect_hooks_ || trace_ != nullptr) enter_backward();
  // 1.13 looks at nothing without synchronisation; later versions count use there too.
  if (options_.is_compat_113 && !expect_hooks_) return;
  if (options_.is_compat_113) last_ready_order_.push_back(static_cast<std::int32_t>(index));
  if (tracks_use_ && is_counted_only(index)) return;
  if (!expect_hooks_) return;
  if (!options_.is_compat_113) last_ready_order_.push_back(static_cast<std::int32_t>(index));
  if (!unused_marked_) mark_unused();
  if (static_graph_ && !is_last_firing(index)) return;
  if (should_rebuild()) ready_order_.push_back(static_cast<std::int32_t>(index));
  mark_ready(index);
}

// Without synchronisation too: what one micro-step used is used by the whole iteration.
// Returns whether that is all there is to do: in the first backward of a static graph.
bool Reducer::is_counted_only(std::size_t index) {
  if (static_graph_ && !std::exchange(backward_counted_, true)) ++n_backwards_;
  const bool first = is_first_static();
  if ((first || is_searching()) && leaves_[index].has_grad()) local_used_[index] = 1;
  if (first) ++firings_[index];
  return first;
}

bool Reducer::is_last_firing(std::size_t index) {
  if (firings_left_[index] <= 0) throw ReducerError(std::string(kGraphChangedText));
  return --firings_left_[index] == 0;
}

void Reducer::mark_unused() {
  unused_marked_ = true;
  for (std::size_t i = 0; i < reachable_.size(); ++i) {
    if (reachable_[i] == 0) mark_ready(i);
  }
}

void Reducer::mark_ready(std::size_t index) {
  if (ready_[index] != 0) {
    throw ReducerError(
        marked_twice_text(index, is_debugging() ? debug_name(index) : std::string()));
  }
  ready_[index] = 1;
  require_finalize_ = true;
  if (active_ranks_.valid()) fix_divisor();
  fill_slot(index);
  if (--buckets_[slots_[index].bucket].n_pending == 0) launch_full_buckets();
}

// Used without synchronisation before, and its gradient thrown away since.
bool Reducer::is_use_promised(std::size_t index) const {
  return !options_.is_compat_113 && (is_searching() || is_first_static()) &&
         local_used_[index] != 0;
}

void Reducer::fill_slot(std::size_t index) {
  if (buckets_[slots_[index].bucket].is_sparse) {
    fill_rows(index);
    return;
  }
  const Variable& leaf = leaves_[index];
  const Tensor& view = slots_[index].view;
  const Tensor& grad = leaf.grad();
  if (trace_ != nullptr) trace_->on_reduce(index, grad, leaf.only_hook_is(*this));
  Kernels& kernels = runtime_->kernels();
  if (!grad.defined()) {
    if (is_use_promised(index)) throw ReducerError(std::string(kUndefinedButUsedText));
    kernels.fill(view, 0.0);
    return;
  }
  if (grad.dtype() != view.dtype()) {
    throw ReducerError("Expected " + std::string(name_of(view.dtype())) + ", got " +
                       std::string(name_of(grad.dtype())));
  }
  // What takes the place of the all-reduce divides, too.
  if (options_.gradient_as_bucket_view && grad.is_alias_of(view)) {
    if (hook_ == nullptr) kernels.div_scalar(view, view, divisor_);
    return;
  }
  if (hook_ == nullptr) {
    kernels.average_into_bucket(view, grad, divisor_);
  } else {
    kernels.copy(view, grad);
  }
  if (options_.gradient_as_bucket_view) leaf.set_grad(view);
}

void Reducer::launch_full_buckets() {
  while (next_bucket_ < buckets_.size() && buckets_[next_bucket_].n_pending == 0) {
    launch(buckets_[next_bucket_]);
    ++next_bucket_;
  }
  if (next_bucket_ == buckets_.size()) on_all_launched();
}

void Reducer::launch(Bucket& bucket) {
  if (bucket.is_sparse) {
    launch_rows(bucket);
    return;
  }
  if (hook_ != nullptr) {
    run_hook(bucket);
    return;
  }
  bucket.work = group_->all_reduce(bucket.lent.lend(bucket.flat, *group_),
                                   ReduceOp::kSum,
                                   op_options("ddp.backward", bucket.layout));
}

// A bucket's number is how many were launched before it, which a delayed reduction does not count.
void Reducer::run_hook(Bucket& bucket) {
  std::vector<Variable> parameters;
  std::vector<Tensor> gradients;
  for (const std::int32_t member : bucket.members) {
    const auto index = static_cast<std::size_t>(member);
    parameters.push_back(leaves_[index]);
    gradients.push_back(slots_[index].view);
  }
  GradBucket shown(next_bucket_,
                   next_bucket_ + 1 == buckets_.size(),
                   bucket.flat,
                   std::move(parameters),
                   std::move(gradients),
                   op_options("ddp.hook", bucket.layout));
  bucket.pending = hook_->run(shown);
  if (bucket.pending == nullptr)
    throw ReducerError("a communication hook returned no future: run() returned null");
}

void Reducer::on_all_launched() {
  if (is_searching()) launch_used_map();
  // The end of the pass that completes the buckets, even if it is nested in another.
  if (is_nested_backward(*runtime_)) queue_callback(*runtime_, *this);
}

void Reducer::launch_used_map() {
  std::copy(local_used_.begin(), local_used_.end(), global_used_.begin());
  used_map_work_ = group_->all_reduce(
      Memory::of(std::span(global_used_)), ReduceOp::kSum, op_options("ddp.backward", 0));
}

}  // namespace lockstep
