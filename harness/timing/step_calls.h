// How long the collectives of one optimizer step kept their links busy.
//
//   last arrival of call 0   of call 1
//          o--------------------o-----------------)        under way: 0, then 0 and 1, then 1
//          [----------------- busy ---------------]
//
// A call that is posted while others are under way waits for them, and a recorder may notice several ends at once: how long
// one of them took does not show, how long all of them took together does.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/trace/memory_trace.h"

namespace lockstep {

/// Collectives of one operation, size and number of ranks.
struct SizedCalls {
  CollectiveOp op = CollectiveOp::kAllReduce;
  std::int64_t n_bytes = 0;  ///< As nccl-tests counts them: bytes_of() in call_times.h.
  std::int32_t n_ranks = 0;
  std::int64_t n = 1;
  friend auto operator<=>(const SizedCalls&, const SizedCalls&) = default;
};

/// All steps that made the same calls.
struct StepCalls {
  std::vector<SizedCalls> calls;  ///< Of one such step; ascending.
  /// The median of the steps: one or more calls were under way whose last member had come.
  std::int64_t busy_ns = 0;
  std::int64_t n_steps = 0;
};

/// Steps with collectives, those with the same ones together. A call belongs to the step of the lowest rank in which its last
/// member came; what a backward reduces has ended when the backward has.
///
/// Requires: times of all ranks on one clock.
/// Deterministic: a function of the events alone.
std::vector<StepCalls> step_calls(const MemoryTrace& trace);

}  // namespace lockstep
