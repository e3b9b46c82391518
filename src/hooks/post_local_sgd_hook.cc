#include "lockstep/hooks/post_local_sgd_hook.h"

#include "lockstep/hooks/detail/pending.h"

namespace lockstep {

PostLocalSgdHook::PostLocalSgdHook(ProcessGroup& group, const PostLocalSgdOptions& options)
    : group_(&group), options_(options) {
  LOCKSTEP_CHECK(options.subgroup != nullptr || !options.post_local_gradient_allreduce,
                 "post-local SGD averages over a subgroup, which must be given");
}

std::unique_ptr<PendingBucket> PostLocalSgdHook::run(GradBucket& bucket) {
  if (iteration_ < options_.start_iter) {
    if (bucket.is_last()) ++iteration_;
    return detail::average(bucket.buffer(), *group_, bucket.op_options());
  }
  if (!options_.post_local_gradient_allreduce) {
    return std::make_unique<detail::ReadyBucket>(bucket.buffer());
  }
  return detail::average(bucket.buffer(), *options_.subgroup, bucket.op_options());
}

}  // namespace lockstep
