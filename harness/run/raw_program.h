// Runs the operations that a scenario writes out rank by rank.
#pragma once

#include "lockstep/comm/rank_context.h"
#include "lockstep/harness/scenario/scenario.h"

namespace lockstep {

/// Runs the program of this rank (all programs whose ranks contain it, in file order).
///
/// Errors: CommError when a collective fails; std::runtime_error from `throw` and from an `expect`
///     that is not met, naming rank, tensor and the place in the file.
void run_program(const Scenario& scenario, RankContext& context);

}  // namespace lockstep
