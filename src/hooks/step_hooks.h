// Hooks that update parameters as soon as their bucket has arrived, inside the backward.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "lockstep/reducer/comm_hook.h"

namespace lockstep {

/// Updates one parameter: PyTorch's `step_param` of a functional optimizer. Not an optimizer, so
/// that hooks need not know any.
class ParameterStep {
 public:
  ParameterStep() = default;
  virtual ~ParameterStep() = default;
  ParameterStep(const ParameterStep&) = delete;
  ParameterStep& operator=(const ParameterStep&) = delete;
  ParameterStep(ParameterStep&&) = delete;
  ParameterStep& operator=(ParameterStep&&) = delete;

  /// Updates one parameter from its reduced gradient.
  virtual void step(const Variable& parameter, const Tensor& gradient) = 0;
};

/// Runs another hook, then steps each parameter of the bucket with the gradient the bucket shows.
/// The ordinary optimizer must leave these parameters alone, or they step twice.
///
/// The step reads the bucket, not the inner hook's result. An inner hook that answers with other
/// memory (quantization) therefore makes every rank step with its local gradient, and replicas
/// diverge; so it is in PyTorch.
///
/// Collectives: the inner hook's.
/// Source: torch ddp_comm_hooks.optimizer_overlap_hooks._hook_then_optimizer.
class StepAfterHook final : public CommHook {
 public:
  /// `only`: the parameters to step, nullopt = all. Requires: `step` outlives the hook.
  StepAfterHook(std::unique_ptr<CommHook> inner,
                ParameterStep& step,
                std::optional<std::vector<Variable>> only = std::nullopt);

  std::unique_ptr<PendingBucket> run(GradBucket& bucket) override;

  /// The inner hook's.
  HookState save(Runtime& runtime) const override { return inner_->save(runtime); }

  void load(const HookState& state) override { inner_->load(state); }

 private:
  bool steps(const Variable& parameter) const;

  std::unique_ptr<CommHook> inner_;
  ParameterStep* step_;
  std::optional<std::vector<Variable>> only_;
};

/// Adds the bucket over all ranks, divides the sum by N afterwards, and steps each parameter.
///
/// Dividing late rounds once, of the sum, where dividing first rounds each addend: other bits than
/// AllReduceHook unless N is a power of two, and a sum that overflows before it is divided.
///
/// Collectives: AR(bucket).
/// Source: torch ddp_comm_hooks.optimizer_overlap_hooks of PyTorch 2,
///     _apply_optim_in_backward_hook.
class DivideThenStepHook final : public CommHook {
 public:
  /// Requires: `group` and `step` outlive the hook.
  DivideThenStepHook(ProcessGroup& group, ParameterStep& step) : group_(&group), step_(&step) {}

  std::unique_ptr<PendingBucket> run(GradBucket& bucket) override;

 private:
  ProcessGroup* group_;
  ParameterStep* step_;
};

}  // namespace lockstep
