// The two hooks that change nothing and everything: plain averaging, and no communication at all.
#pragma once

#include "lockstep/reducer/comm_hook.h"

namespace lockstep {

/// Averages the bucket: divides it by N, then one all-reduce (sum) of it, in place.
///
/// Lossless up to rounding. Not bit-equal to having no hook unless N is a power of two: the reducer
/// multiplies by 1/N, this hook divides. A hook like it that forgets the division gives
/// gradients N times too large, equal on all ranks.
///
/// Collectives: AR(bucket).
/// Source: torch ddp_comm_hooks.default_hooks.allreduce_hook; c10d's builtin ALLREDUCE hook, which
///     does the same arithmetic.
class AllReduceHook final : public CommHook {
 public:
  /// Requires: `group` outlives the hook.
  explicit AllReduceHook(ProcessGroup& group) : group_(&group) {}

  std::unique_ptr<PendingBucket> run(GradBucket& bucket) override;

 private:
  ProcessGroup* group_;
};

/// Leaves every rank with its own gradients, to measure what communication costs. Replicas diverge
/// with the first step.
///
/// Collectives: none.
/// Source: torch ddp_comm_hooks.debugging_hooks.noop_hook.
class NoopHook final : public CommHook {
 public:
  HookEffect effect() const override { return HookEffect::kOther; }

  std::unique_ptr<PendingBucket> run(GradBucket& bucket) override;
};

}  // namespace lockstep
