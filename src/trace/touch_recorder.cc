#include "lockstep/trace/touch_recorder.h"

#include <string>

namespace lockstep {

namespace {

TouchManner manner_of(InFlight::Manner manner) {
  switch (manner) {
    case InFlight::Manner::kValue:
      return TouchManner::kValue;
    case InFlight::Manner::kAbandoned:
      return TouchManner::kAbandoned;
    case InFlight::Manner::kNone:
      break;
  }
  return TouchManner::kNone;
}

}  // namespace

void TouchRecorder::on_touch(const InFlight::Loan& loan, const InFlight::Access& access) {
  NameTable& names = recorder_->names();
  NameId posted_at = kNoName;
  if (loan.site.known()) {
    posted_at = names.intern(loan.site.file + (":" + std::to_string(loan.site.line)));
  }
  recorder_->record(TouchEvent{.written = access.writes,
                               .operation = names.intern(access.operation),
                               .site = access.site,
                               .group = loan.group,
                               .seq = loan.seq,
                               .call = names.intern(loan.call),
                               .receives = loan.written,
                               .posted_at = posted_at,
                               .manner = manner_of(access.manner)},
                    loan.wrapper);
}

}  // namespace lockstep
