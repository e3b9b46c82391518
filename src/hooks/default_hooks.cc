#include "lockstep/hooks/default_hooks.h"

#include "lockstep/hooks/detail/pending.h"

namespace lockstep {

std::unique_ptr<PendingBucket> AllReduceHook::run(GradBucket& bucket) {
  return detail::average(bucket.buffer(), *group_, bucket.op_options());
}

std::unique_ptr<PendingBucket> NoopHook::run(GradBucket& bucket) {
  return std::make_unique<detail::ReadyBucket>(bucket.buffer());
}

}  // namespace lockstep
