// The losses of a run as its trace has them.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/trace/memory_trace.h"

namespace lockstep {

struct RecordedLosses {
  std::int64_t first_step = 0;  ///< More than 0 after a restart.
  /// One per optimizer step of the first wrapper; empty: no rank recorded one.
  std::vector<std::vector<double>> by_rank;
};

/// What the last loss before each step was, in the last attempt. Losses that were only looked at do
/// not count.
RecordedLosses recorded_losses(const MemoryTrace& trace);

}  // namespace lockstep
