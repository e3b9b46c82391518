// Scenarios against what they expect: what `test` and `zoo` share.
#pragma once

#include <string>
#include <vector>

#include "lockstep/scenario/scenario.h"

namespace lockstep::cli {

/// Every variant of every file, in order. All of them are read before anything runs: a typo in the
/// last file costs seconds, not the whole run.
Result<std::vector<Scenario>> load_all_variants(const std::vector<std::string>& files);

/// A scenario that ran, and what it did otherwise than expected.
struct Judged {
  ScenarioResult result;  ///< Empty when the scenario could not run.
  std::vector<Unmet> unmet;
};

Judged judge(const Scenario& scenario);

}  // namespace lockstep::cli
