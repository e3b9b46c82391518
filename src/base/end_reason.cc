#include "lockstep/base/end_reason.h"

namespace lockstep {

std::string_view name_of(EndOutcome outcome) {
  switch (outcome) {
    case EndOutcome::kNone:
      return "";
    case EndOutcome::kException:
      return "exception";
    case EndOutcome::kKilled:
      return "killed";
    case EndOutcome::kOk:
      return "ok";
    case EndOutcome::kStuck:
      return "stuck";
  }
  return "";
}

std::string_view name_of(EndReason reason) {
  switch (reason) {
    case EndReason::kNone:
      return "";
    case EndReason::kLivelock:
      return "livelock";
    case EndReason::kOtherFailed:
      return "other-failed";
    case EndReason::kLawBroken:
      return "law-broken";
  }
  return "";
}

}  // namespace lockstep
