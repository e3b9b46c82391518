#include "lockstep/autograd/accumulator.h"

#include "lockstep/autograd/sparse_rows.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep {

void Accumulator::run(Tensor&& grad) {
  if (variable_ == nullptr) return;
  const Ref<VariableState> keep(variable_);  // A hook may drop the last handle.
  const Ref<SparseRows> rows = take_sparse();

  if (grad.defined() && variable_->requires_grad) {
    announce(grad);
    accumulate(std::move(grad));
  } else if (rows && variable_->requires_grad) {
    if (rows->values().runtime().recorder() != nullptr) announce(to_dense(*rows));
    accumulate_sparse(*variable_, rows);
  }
  // NOLINTNEXTLINE(modernize-loop-convert)
  for (std::size_t i = 0; i < hooks_.size(); ++i) {
    const Registration entry = hooks_[i];
    entry.hook->on_grad_ready(entry.index);
  }
}

void Accumulator::announce(const Tensor& increment) const {
  // By index: a hook may register or remove hooks.
  // NOLINTNEXTLINE(modernize-loop-convert)
  for (std::size_t i = 0; i < hooks_.size(); ++i) {
    const Registration entry = hooks_[i];
    entry.hook->on_grad_increment(entry.index, increment);
  }
}

void Accumulator::accumulate(Tensor&& increment) const {
  Tensor& grad = variable_->grad;
  if (grad.defined()) {
    kernels().add(grad, grad, increment);
    return;
  }
  grad = increment.storage()->use_count() == 1 ? std::move(increment) : increment.clone();
  if (variable_->sparse_grad) {
    add_rows(grad, *variable_->sparse_grad);
    variable_->sparse_grad = {};
  }
}

void Accumulator::remove_hook(const GradHook& hook) {
  std::erase_if(hooks_, [&hook](const Registration& entry) { return entry.hook == &hook; });
}

}  // namespace lockstep
