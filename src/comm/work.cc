#include "lockstep/comm/work.h"

#include "lockstep/base/check.h"

namespace lockstep {

void Work::wait_or_throw() const {
  LOCKSTEP_CHECK(
      valid(),
      "wait_or_throw() of an empty Work: only an operation that was posted can be waited for");
  const CommStatus status = wait();
  if (status != CommStatus::kOk) throw CommError(status, signature(), state_->detail());
}

}  // namespace lockstep
