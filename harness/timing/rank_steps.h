// How long each optimizer step of each rank took, and for what part of it the rank waited.
//
//   forward          backward                              wait          update
//   |----------------|------------------o-----------o======|-------------|
//                        bucket 0 posted    1 posted = all gradients are there
//                                       [----------------]   bucket 0 under way
//                                                   [======] bucket 1 under way
//
// Nothing is left to compute in a backward once its last bucket is posted, so what remains until the
// last of its buckets has completed is exposed; what came before is hidden by computing.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/trace/memory_trace.h"

namespace lockstep {

/// One optimizer step of one rank. Units: nanoseconds of the trace's own time.
struct StepTimes {
  std::int32_t rank = 0;
  std::int64_t start_ns = 0;         ///< Its first forward with gradients.
  std::int64_t end_ns = 0;           ///< Its optimizer step ended.
  std::int64_t backward_end_ns = 0;  ///< Its last backward ended; 0: it has none.
  /// From its forwards to the losses after them, while no gradients are reduced; 0: no losses are known.
  std::int64_t forward_ns = 0;
  std::int64_t communication_ns = 0;  ///< One or more calls of the rank were under way.
  std::int64_t exposed_ns = 0;        ///< The rank waited for calls and could not compute.
  /// Calls that the program posted asynchronously outside of a wrapper's backward. The trace does
  /// not say when it waited for them: they count as communication and not as exposed.
  std::int64_t n_own_async = 0;
};

/// All steps of all ranks, rank by rank, in order. Evaluations and snapshots between two steps
/// belong to neither.
///
/// Requires: a trace with times; one where they are all 0 gives steps of no length.
/// Deterministic: a function of the events alone.
std::vector<StepTimes> rank_steps(const MemoryTrace& trace);

}  // namespace lockstep
