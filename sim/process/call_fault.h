// Faults in few words, where they strike by rank and call: "lose:2:6".
#pragma once

#include <string_view>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/sim/fault/fault.h"

namespace lockstep::sim {

/// A rank whose every call comes late, from one of its calls on. Time is virtual.
struct SlowCalls {
  std::int32_t rank = 0;
  std::int64_t first_call = 0;
  Duration delay{};
};

/// A rank whose process is killed in the middle of writing a file. Only the process can do that to itself.
struct TornSave {
  std::int32_t rank = 0;
  std::int64_t save = 0;      // Which of its saves, from 0 on.
  std::int32_t percent = 50;  // Of the bytes that are in the file.
};

struct CallFaults {
  std::vector<Fault> faults;
  std::vector<SlowCalls> slow;
  std::vector<TornSave> torn;
};

/// KIND:RANK:CALL[:AMOUNT]: what happens to the call of that number (collectives and messages of the
/// rank, from 0 on) as it is posted. Kinds are FaultKind's words that fit a process, or shorter ones:
///
///   lose, drop           its contribution never arrives
///   duplicate, double    sums count it twice
///   delay                its contribution arrives AMOUNT milliseconds later (1000)
///   late                 the rank pauses for AMOUNT milliseconds (1000)
///   slow                 from this call on it pauses so before each
///   corrupt              bit AMOUNT of its first element flips (0)
///   stale                it contributes what it did to its last call of this kind
///   exception            the rank's code throws there
///   sigkill, kill        the process is killed
///   hang                 the rank stops there without ending
///   torn-write, torn     the process is killed in the middle of its save of that number, with AMOUNT
///                        percent of the bytes written (50)
///
/// Errors: what is not like that, with what is meant; a rank outside of the world.
Result<CallFaults> parse_call_faults(const std::vector<std::string_view>& words,
                                     std::int32_t n_ranks);

}  // namespace lockstep::sim
