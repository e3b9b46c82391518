// Times to draw events at.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/trace/memory_trace.h"

namespace lockstep::detail {

/// One time per event and rank, in nanoseconds: the recorded ones, or, where all of those are 0,
/// logical ones: an event is 1,000 after the one before it, and the end of a call after the last
/// post of it on any rank (L. Lamport, Time, Clocks, and the Ordering of Events, CACM 1978).
std::vector<std::vector<std::int64_t>> drawing_times(const MemoryTrace& trace);

/// Whether any event carries its own time.
bool is_timed(const MemoryTrace& trace);

}  // namespace lockstep::detail
