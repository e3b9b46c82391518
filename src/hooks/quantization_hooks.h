// Hooks that send one byte per element, plus a scale and a zero point.
#pragma once

#include <cstdint>

#include "lockstep/reducer/comm_hook.h"

namespace lockstep {

/// Sends the bucket as bytes q = clamp(round_half_even(x / s) + z, 0, 255), with one scale s and
/// zero point z a rank, chosen from the smallest and largest element: s = (max - min) / 255 but at
/// least 2^-23, z = clamp(-round(min / s), 0, 255), where min <= 0 <= max.
///
/// Every rank adds s_r * (q_r - z_r) in ascending rank order from +0 and divides by N, so replicas
/// stay bit-equal whatever the group's reduction order. Lossy: an element is off by up to half a
/// scale a rank, and a single outlier coarsens the whole bucket.
///
/// The result is new memory; the bucket keeps the local gradients, so hooks that read the bucket
/// afterwards (StepAfterHook) must not be put around it.
///
/// Collectives: AG(f32[2]: s and z), waited for; AG(u8[n]).
/// Errors: ContractViolation for buckets that are not f32 or hold a NaN or an infinity.
/// Source: torch ddp_comm_hooks.quantization_hooks.quantization_pertensor_hook.
class QuantizePerTensorHook final : public CommHook {
 public:
  /// Requires: `group` outlives the hook.
  explicit QuantizePerTensorHook(ProcessGroup& group) : group_(&group) {}

  HookEffect effect() const override { return HookEffect::kRounded; }

  std::unique_ptr<PendingBucket> run(GradBucket& bucket) override;

 private:
  ProcessGroup* group_;
};

/// As QuantizePerTensorHook, with a scale and a zero point for each channel of `channel`
/// consecutive elements. The bucket is padded with channel - n % channel zeros: a whole channel of
/// them when n is a multiple.
///
/// Collectives: AG(f32[2 C]: all scales, then all zero points), waited for; AG(u8[C * channel]).
/// Source: torch ddp_comm_hooks.quantization_hooks.quantization_perchannel_hook.
class QuantizePerChannelHook final : public CommHook {
 public:
  /// Requires: `group` outlives the hook; channel > 0.
  explicit QuantizePerChannelHook(ProcessGroup& group, std::int64_t channel = 512);

  HookEffect effect() const override { return HookEffect::kRounded; }

  std::unique_ptr<PendingBucket> run(GradBucket& bucket) override;

 private:
  ProcessGroup* group_;
  std::int64_t channel_;
};

}  // namespace lockstep
