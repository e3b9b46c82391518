#include "lockstep/comm/work.h"

namespace lockstep {

void Work::wait_or_throw() const {
  const CommStatus status = wait();
  if (status != CommStatus::kOk) throw CommError(status, signature(), state_->detail());
}

}  // namespace lockstep
