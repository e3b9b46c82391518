// Averages globally for a while, then within subgroups only.
#pragma once

#include <cstdint>

#include "lockstep/reducer/comm_hook.h"

namespace lockstep {

/// The arguments of PyTorch's PostLocalSGDState.
struct PostLocalSgdOptions {
  ProcessGroup* subgroup = nullptr;           ///< Who averages after the start; outlives the hook.
  std::int64_t start_iter = 0;                ///< start_localSGD_iter
  bool post_local_gradient_allreduce = true;  ///< false: gradients stay local after the start.
};

/// Averages gradients over `group` for the first start_iter iterations, over the subgroup (or not
/// at all) afterwards. Something else, a model averager, must then bring the subgroups together:
/// without one replicas of different subgroups diverge, on purpose.
///
/// Iterations are counted by last buckets and only up to the start, so iteration() stops there.
///
/// Collectives: AR(bucket) in one group or the other, or none.
/// Source: torch ddp_comm_hooks.post_localSGD_hook. PyTorch makes a subgroup of each machine's
///     ranks when given none; here it must be given.
class PostLocalSgdHook final : public CommHook {
 public:
  /// Requires: a subgroup, unless gradients stay local.
  PostLocalSgdHook(ProcessGroup& group, const PostLocalSgdOptions& options);

  HookEffect effect() const override { return HookEffect::kOther; }

  std::unique_ptr<PendingBucket> run(GradBucket& bucket) override;

  HookState save(Runtime& runtime) const override;
  void load(const HookState& state) override;

  std::int64_t iteration() const { return iteration_; }

 private:
  ProcessGroup* group_;
  PostLocalSgdOptions options_;
  std::int64_t iteration_ = 0;
};

}  // namespace lockstep
