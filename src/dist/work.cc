#include "lockstep/dist/work.h"

#include "lockstep/base/check.h"

namespace lockstep {

void Work::wait_or_throw() const {
  LOCKSTEP_CHECK(valid(), "a work must be posted before it can be waited for");
  const CommStatus status = wait();
  if (status != CommStatus::kOk) throw CommError(status, signature(), state_->detail());
}

}  // namespace lockstep
