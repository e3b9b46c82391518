// The reducer in and after a backward pass: from gradients to published averages.
#include <string>
#include <utility>

#include "lockstep/autograd/engine.h"
#include "lockstep/reducer/reducer.h"
#include "lockstep/reducer/reducer_error.h"

namespace lockstep {

void Reducer::enter_backward() {
  if (backward_.running) return;
  backward_.running = true;
  queue_outer_callback(*runtime_, *this);
}

void Reducer::on_grad_increment(std::size_t index, const Tensor& increment) {
  if (trace_ == nullptr) return;
  enter_backward();
  trace_->on_increment(index, increment);
}

void Reducer::on_grad_ready(std::size_t index) {
  if (backward_.expects_hooks || trace_ != nullptr) enter_backward();
  // 1.13 looks at nothing without synchronisation; later versions count use there too.
  if (options_.is_compat_113 && !backward_.expects_hooks) return;
  if (options_.is_compat_113) order_.last.push_back(static_cast<std::int32_t>(index));
  if (use_.count(index, n_iterations_)) return;
  if (!backward_.expects_hooks) return;
  if (!options_.is_compat_113) order_.last.push_back(static_cast<std::int32_t>(index));
  if (!backward_.unused_marked) mark_unused();
  if (!use_.is_last_firing(index)) return;
  if (should_rebuild()) order_.until_rebuild.push_back(static_cast<std::int32_t>(index));
  mark_ready(index);
}

void Reducer::mark_unused() {
  backward_.unused_marked = true;
  for (std::size_t i = 0; i < use_.reachable().size(); ++i) {
    if (use_.reachable()[i] == 0) mark_ready(i);
  }
}

void Reducer::mark_ready(std::size_t index) {
  if (backward_.ready[index] != 0) {
    throw ReducerError(
        marked_twice_text(index, is_debugging() ? debug_name(index) : std::string()));
  }
  backward_.ready[index] = 1;
  backward_.requires_finalize = true;
  if (active_ranks_.valid()) fix_divisor();
  fill(index);
  if (buckets_.note_ready(index)) on_all_launched();
}

// Under a join context.
void Reducer::fix_divisor() { divisor_ = std::exchange(active_ranks_, {}).n_active(); }

void Reducer::fill(std::size_t index) {
  const Variable& leaf = parameters_[index].variable;
  const bool sparse = buckets_.is_sparse(index);
  if (trace_ != nullptr && sparse) trace_->on_reduce(index, whole_gradient(leaf), false);
  if (trace_ != nullptr && !sparse) {
    trace_->on_reduce(index, leaf.grad(), leaf.only_hook_is(*this));
  }
  if (!sparse && !leaf.grad().defined() && use_.is_use_promised(index, n_iterations_)) {
    throw ReducerError(std::string(kUndefinedButUsedText));
  }
  buckets_.fill(index, divisor_);
}

void Reducer::on_all_launched() {
  if (is_searching()) use_.launch(*group_, buckets_.op_options("ddp.backward", 0));
  // The end of the pass that completes the buckets, even if it is nested in another.
  if (is_nested_backward(*runtime_)) queue_callback(*runtime_, *this);
}

// ---- after the graph

void Reducer::on_backward_end() {
  const bool reduced = backward_.requires_finalize && buckets_.all_launched();
  if (!backward_.running) return;
  // The callback of the outermost pass comes last; until then there may be more gradients.
  if (is_nested_backward(*runtime_) && !reduced) return;
  if (!is_nested_backward(*runtime_)) backward_.running = false;
  if (trace_ != nullptr) trace_->record_local();
  if (reduced) {
    if (static_graph() && should_rebuild()) push_unused();
    finalize();
  }
  if (trace_ != nullptr) trace_->record_outcome(reduced);
}

// Parameters that never receive a gradient end a static graph's order of readiness.
void Reducer::push_unused() {
  for (std::size_t i = 0; i < use_.reachable().size(); ++i) {
    if (use_.reachable()[i] == 0) order_.until_rebuild.push_back(static_cast<std::int32_t>(i));
  }
}

void Reducer::delay_all_reduce() {
  backward_.running = false;
  if (trace_ != nullptr) trace_->record_local();
  use_.launch(*group_, buckets_.op_options("ddp.backward", 0));
  backward_.requires_finalize = true;
  if (active_ranks_.valid()) fix_divisor();
  use_.end_first_static();
  for (std::size_t i = 0; i < parameters_.size(); ++i) fill(i);
  buckets_.launch_all();
  if (!backward_.expects_hooks) {
    // What is under way writes into memory that may end with an exception.
    buckets_.settle();
    use_.settle();
    throw ReducerError(
        "expect_autograd_hooks_ INTERNAL ASSERT FAILED: the first backward of a static graph was "
        "not a synchronising one");
  }
  finalize();
  if (trace_ != nullptr) trace_->record_outcome(true);
}

void Reducer::await_after_backward(std::vector<Work> works) {
  for (Work& work : works) extra_works_.push_back(std::move(work));
}

void Reducer::finalize() {
  backward_.expects_hooks = false;
  backward_.requires_finalize = false;
  use_.end_backward();
  buckets_.take_results(use_);
  divisor_ = static_cast<double>(group_->size());
  for (const Work& work : std::exchange(extra_works_, {})) work.wait_or_throw();
  use_.end_iteration();
}

}  // namespace lockstep
