// What ranks do when one of them does something else.
#pragma once

#include <optional>
#include <string>

#include "lockstep/comm/process_group.h"

namespace lockstep {

/// How one rank saw it.
struct FaultOutcome {
  std::string status;    ///< Of the operation: "ok", "mismatch", "timed_out", "peer_lost", ...
  std::string detail;    ///< In words.
  bool right = false;    ///< The values are those of ranks that agree.
  double seconds = 0.0;  ///< Until the status was there.
};

/// Plays a divergence of rank 1: "op", "dtype", "count", "count-much", "root", "swap", "skip", or
/// its death: "kill". Nothing: no such fault.
/// Requires: two ranks or more.
std::optional<FaultOutcome> play_fault(ProcessGroup& group, const std::string& name);

}  // namespace lockstep
