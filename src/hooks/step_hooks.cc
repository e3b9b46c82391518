#include "lockstep/hooks/step_hooks.h"

#include <algorithm>
#include <utility>

#include "lockstep/hooks/detail/pending.h"

namespace lockstep {

namespace {

/// Finishes the inner result, divides the bucket if asked to, and steps.
class SteppingBucket final : public PendingBucket {
 public:
  SteppingBucket(std::unique_ptr<PendingBucket> inner,
                 GradBucket bucket,
                 ParameterStep& step,
                 std::int32_t divisor)
      : inner_(std::move(inner)), bucket_(std::move(bucket)), step_(&step), divisor_(divisor) {}

  Tensor wait() override {
    static_cast<void>(inner_->wait());
    if (divisor_ != 1) detail::divide(bucket_.buffer(), divisor_);
    for (std::size_t i = 0; i < bucket_.parameters().size(); ++i) {
      step_->step(bucket_.parameters()[i], bucket_.gradients()[i]);
    }
    return bucket_.buffer();
  }

 private:
  std::unique_ptr<PendingBucket> inner_;
  GradBucket bucket_;  ///< Of the parameters that step.
  ParameterStep* step_;
  std::int32_t divisor_;
};

}  // namespace

StepAfterHook::StepAfterHook(std::unique_ptr<CommHook> inner,
                             ParameterStep& step,
                             std::optional<std::vector<Variable>> only)
    : inner_(std::move(inner)), step_(&step), only_(std::move(only)) {
  LOCKSTEP_CHECK(inner_ != nullptr, "StepAfterHook got no hook to wrap");
}

bool StepAfterHook::steps(const Variable& parameter) const {
  return !only_ || std::find(only_->begin(), only_->end(), parameter) != only_->end();
}

std::unique_ptr<PendingBucket> StepAfterHook::run(GradBucket& bucket) {
  std::unique_ptr<PendingBucket> inner = inner_->run(bucket);
  std::vector<Variable> parameters;
  std::vector<Tensor> gradients;
  for (std::size_t i = 0; i < bucket.parameters().size(); ++i) {
    if (!steps(bucket.parameters()[i])) continue;
    parameters.push_back(bucket.parameters()[i]);
    gradients.push_back(bucket.gradients()[i]);
  }
  GradBucket stepped(bucket.index(),
                     bucket.is_last(),
                     bucket.buffer(),
                     std::move(parameters),
                     std::move(gradients),
                     bucket.op_options());
  return std::make_unique<SteppingBucket>(std::move(inner), std::move(stepped), *step_, 1);
}

std::unique_ptr<PendingBucket> DivideThenStepHook::run(GradBucket& bucket) {
  return std::make_unique<SteppingBucket>(
      std::make_unique<detail::ReducingBucket>(bucket.buffer(), *group_, bucket.op_options()),
      bucket,
      *step_,
      group_->size());
}

}  // namespace lockstep
