// Where and when replicas differ: every step of every rank, for a picture of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/trace/memory_trace.h"

namespace lockstep {

/// The parameters of one rank after one step, next to those of most ranks.
struct DivergenceCell {
  static constexpr std::int32_t kNothing = -1;  ///< The rank recorded no parameters there.

  std::int32_t n_tensors = kNothing;  ///< How many differ from the majority.
  std::string first = {};             ///< The first of them, in the order of their names' list.
};

/// One optimizer step of one restart attempt.
struct DivergenceStep {
  std::int32_t attempt = 0;
  std::int64_t step = 0;              ///< On the majority.
  std::vector<DivergenceCell> ranks;  ///< One per rank.
};

/// Compares the replicas' parameters after every optimizer step, as law replicas-equal aligns them:
/// by synchronising forward, so that a rank which skipped a step is compared with what the others
/// had then. On a tie the side without the lowest rank differs. Ignored names are left out.
///
/// Returns: the steps in order; empty when no parameters were recorded after steps.
std::vector<DivergenceStep> divergence_of(const MemoryTrace& trace);

}  // namespace lockstep
