// A trace as a picture: slices on a track a rank, for ui.perfetto.dev and chrome://tracing.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "lockstep/trace/timeline.h"

namespace lockstep {

/// What the picture shows, in numbers.
struct TimelineCounts {
  std::size_t n_slices = 0;  ///< Compute and waits.
  std::size_t n_calls = 0;   ///< Collectives and messages.
  std::size_t n_marks = 0;   ///< Faults, findings, buckets, decisions, logs.
};

struct Timeline {
  std::string json;
  TimelineCounts counts;
};

/// Renders a trace in the JSON format of Chrome's trace viewer: a process per rank with the threads
/// "training" (steps; in them forward, backward, optimizer), "waits" (calls that block their rank)
/// and asynchronous slices of collectives, posted to completed; faults, findings, bucket layouts,
/// decisions and logs are marks.
///
/// Units: microseconds of the trace's own time. Where all times are 0 (untimed runs), an event
///     takes one microsecond, and a completion comes after the posts it needs.
/// Deterministic: timestamps ascend; slices of one thread nest; each is closed.
/// Source: Trace Event Format, Google, 2016: phases X, b, e, i and M.
Timeline render_perfetto(const MemoryTrace& trace, std::span<const TimelineNote> notes = {});

}  // namespace lockstep
