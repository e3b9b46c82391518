// What a scenario expects of a job that was disturbed and restarted.
#pragma once

#include <string>
#include <vector>

#include "lockstep/harness/run/expect.h"
#include "lockstep/harness/run/run_scenario.h"
#include "lockstep/harness/scenario/scenario.h"

namespace lockstep {

/// Adds what differs from `expect.restarts` to `unmet`.
void check_restarts(const Expectation& expect,
                    const ScenarioResult& result,
                    std::vector<UnmetExpectation>& unmet);

/// Runs the variant of `expect.final_state.equals_variant`, and adds to `unmet` when ranks end with
/// other parameters than there.
void check_final_state(const Scenario& scenario,
                       const ScenarioResult& result,
                       std::vector<UnmetExpectation>& unmet);

}  // namespace lockstep
