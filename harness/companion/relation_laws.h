// Laws that compare a run with a second run. They need companion runs, so they live above the
// simulator.
#pragma once

#include <array>
#include <string_view>

#include "lockstep/harness/scenario/scenario.h"

namespace lockstep {

/// The laws of this kind that run_scenario checks.
inline constexpr std::array<std::string_view, 3> kRelationLaws = {
    "single-process-equal", "resume-equal", "deterministic"};

/// Law single-process-equal: what N ranks computed is what one process computes on the same global
/// batches.
///
/// Exact jobs: the whole job once more as one process, each global batch in one forward, its loss
/// normalised as declared; every gradient a step used and every parameter after it must be equal,
/// bit for bit. Other jobs: step by step from the same parameters, each rank's own gradient
/// combined with the declared weights; the used gradient must lie within the rounding of N + 2
/// operations.
///
/// Checked as long as the replicas are equal as a step begins (afterwards there is no one model to
/// compare with), and for as many steps as the recorded values allow.
///
/// Requires: a scenario with a job. `trace` has rank 0's step values (SessionOptions::step_values).
/// Source: the promise of data parallelism itself: N replicas = one process (docs/laws.md).
LawResult check_single_process_equal(const Scenario& scenario, const MemoryTrace& trace);

}  // namespace lockstep
