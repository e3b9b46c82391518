// Hooks that send 16-bit floats in the place of the bucket's own.
#pragma once

#include <memory>

#include "lockstep/reducer/comm_hook.h"

namespace lockstep {

/// Rounds the bucket to `wire`, divides it by N in that type, one all-reduce (sum) in that type,
/// and widens the result back into the bucket.
///
/// Lossy: every addition rounds to 11 (f16) or 8 (bf16) significant bits; an f16 gradient beyond
/// 65504 becomes infinite before the division could make it small, and stays so on all ranks.
/// Replicas stay bit-equal.
///
/// Collectives: AR(bucket in the wire type).
/// Source: torch ddp_comm_hooks.default_hooks.fp16_compress_hook and bf16_compress_hook; c10d's
///     builtin FP16_COMPRESS hook, which does the same arithmetic.
class CompressHook final : public CommHook {
 public:
  /// Requires: `group` outlives the hook; `wire` is kF16 or kBF16.
  CompressHook(ProcessGroup& group, DType wire);

  HookEffect effect() const override { return HookEffect::kRounded; }

  std::unique_ptr<PendingBucket> run(GradBucket& bucket) override;

 private:
  ProcessGroup* group_;
  DType wire_;
};

/// Runs another hook on the bucket rounded to `wire`, rounds its result to `wire` once more and
/// widens that into the bucket. Division is the inner hook's affair.
///
/// Around an AllReduceHook it is bit-equal to CompressHook. While the inner hook runs, the bucket's
/// buffer and gradients are the narrow copies.
///
/// Collectives: the inner hook's.
/// Source: torch ddp_comm_hooks.default_hooks.fp16_compress_wrapper and bf16_compress_wrapper.
class CompressWrapper final : public CommHook {
 public:
  /// Requires: `wire` is kF16 or kBF16.
  CompressWrapper(std::unique_ptr<CommHook> inner, DType wire);

  HookEffect effect() const override { return HookEffect::kRounded; }

  std::unique_ptr<PendingBucket> run(GradBucket& bucket) override;

  /// The inner hook's.
  HookState save(Runtime& runtime) const override { return inner_->save(runtime); }

  void load(const HookState& state) override { inner_->load(state); }

 private:
  std::unique_ptr<CommHook> inner_;
  DType wire_;
};

}  // namespace lockstep
