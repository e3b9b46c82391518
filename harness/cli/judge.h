// Scenarios against what they expect: what `test` and `zoo` share.
#pragma once

#include <string>
#include <vector>

#include "lockstep/harness/format/load.h"
#include "lockstep/harness/run/expect.h"
#include "lockstep/harness/run/run_scenario.h"
#include "lockstep/harness/scenario/scenario.h"

namespace lockstep::cli {

/// Every variant of every file, in order, each with these settings. All of them are read before
/// anything runs: a typo in the last file costs seconds, not the whole run.
Result<std::vector<Scenario>> load_all_variants(const std::vector<std::string>& files,
                                                const std::vector<Setting>& settings = {});

/// A scenario that ran, and where it differs from what was expected.
struct Judged {
  ScenarioResult result;  ///< Empty when the scenario could not run.
  std::vector<UnmetExpectation> unmet;
};

Judged judge(const Scenario& scenario);

}  // namespace lockstep::cli
