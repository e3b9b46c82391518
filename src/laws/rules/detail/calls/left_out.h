// Calls that a rank made and its recorder left out, to keep a budget.
#pragma once

#include <cstdint>

#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// Whether this end of a call stands for calls that were left out: all of its group from the last one
/// that its rank has recorded on, up to and including this one.
inline bool ends_left_out(const CollectiveEvent& call) {
  return call.phase == CollectivePhase::kCompleted && call.status == CallStatus::kLeftOut;
}

/// How many there are, where `next` is the number after the last recorded one. None where a damaged
/// trace claims more than a recorder leaves out at a time.
inline std::int64_t n_left_out(const CollectiveEvent& call, std::int64_t next) {
  constexpr std::int64_t kMost = 1'000'000;
  if (call.seq < next || call.seq - next >= kMost) return 0;
  return call.seq - next + 1;
}

}  // namespace lockstep::laws
