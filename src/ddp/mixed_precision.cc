#include "lockstep/ddp/mixed_precision.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "lockstep/reducer/reducer_error.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep {

// One bucket on its way.
class MixedPrecisionHook::Reduced final : public PendingBucket {
 public:
  Reduced(MixedPrecisionHook& owner, const GradBucket& bucket, Work work)
      : owner_(&owner),
        buffer_(bucket.buffer()),
        parameters_(bucket.parameters()),
        work_(std::move(work)) {}

  Tensor wait() override {
    work_.wait_or_throw();
    const auto n_ranks = static_cast<double>(owner_->group_->size());
    owner_->group_->runtime().kernels().div_scalar(buffer_, buffer_, n_ranks);
    for (const Variable& parameter : parameters_) {
      owner_->raise(parameter);
      if (!parameter.grad().defined()) {
        throw ReducerError("'NoneType' object has no attribute 'to'");
      }
      parameter.set_grad(parameter.grad().to(parameter.data().dtype()));
    }
    owner_->raise_frozen();
    return buffer_;
  }

 private:
  MixedPrecisionHook* owner_;
  Tensor buffer_;
  std::vector<Variable> parameters_;
  Work work_;
};

MixedPrecisionHook::MixedPrecisionHook(std::vector<NamedVariable> parameters,
                                       ProcessGroup& group,
                                       MixedPrecision options)
    : parameters_(std::move(parameters)),
      full_(parameters_.size()),
      group_(&group),
      options_(options) {
  places_.reserve(parameters_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    places_.push_back({&parameters_[i].variable.state(), i});
  }
  std::sort(places_.begin(), places_.end(), [](const ParameterIndex& a, const ParameterIndex& b) {
    return std::less<>()(a.state, b.state);
  });
}

bool MixedPrecisionHook::lower() {
  bool narrow_already = false;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Variable& parameter = parameters_[i].variable;
    if (full_[i].defined()) {
      narrow_already = true;
      continue;
    }
    full_[i] = parameter.data();
    parameter.state().data = full_[i].to(options_.param_dtype);
    if (parameter.grad().defined()) {
      parameter.set_grad(parameter.grad().to(options_.param_dtype));
    }
  }
  return narrow_already;
}

void MixedPrecisionHook::raise(const Variable& parameter) {
  const auto place = std::lower_bound(
      places_.begin(),
      places_.end(),
      &parameter.state(),
      [](const ParameterIndex& a, const auto* state) { return std::less<>()(a.state, state); });
  if (place == places_.end() || place->state != &parameter.state()) return;
  Tensor& full = full_[place->index];
  if (full.defined()) parameter.state().data = std::exchange(full, Tensor());
}

// Nothing is reduced for them.
void MixedPrecisionHook::raise_frozen() {
  for (const NamedVariable& parameter : parameters_) {
    if (!parameter.variable.requires_grad()) raise(parameter.variable);
  }
}

std::unique_ptr<PendingBucket> MixedPrecisionHook::run(GradBucket& bucket) {
  const DType dtype = options_.reduce_dtype.value_or(options_.param_dtype);
  if (dtype != options_.param_dtype) bucket.set_buffer(bucket.buffer().to(dtype));
  return std::make_unique<Reduced>(
      *this,
      bucket,
      group_->all_reduce(Memory::of(bucket.buffer()), ReduceOp::kSum, bucket.op_options()));
}

}  // namespace lockstep
