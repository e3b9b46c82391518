#include "lockstep/hooks/post_local_sgd_hook.h"

#include <stdexcept>

#include "lockstep/hooks/detail/pending.h"

namespace lockstep {

namespace {

constexpr const char* kIteration = "iteration";  // What its state calls it.

}  // namespace

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

HookState PostLocalSgdHook::save(Runtime& /*runtime*/) const {
  return {.counts = {{kIteration, iteration_}}, .tensors = {}};
}

void PostLocalSgdHook::load(const HookState& state) {
  if (state.counts.size() != 1 || state.counts[0].first != kIteration) {
    throw std::invalid_argument("this is not a state of post-local SGD");
  }
  iteration_ = state.counts[0].second;
}

}  // namespace lockstep
