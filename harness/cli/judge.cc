#include "lockstep/harness/cli/judge.h"

#include "lockstep/harness/run/expect.h"
#include "lockstep/harness/run/run_scenario.h"

namespace lockstep::cli {

Result<std::vector<Scenario>> load_all_variants(const std::vector<std::string>& files,
                                                const std::vector<Setting>& settings) {
  std::vector<Scenario> scenarios;
  for (const std::string& file : files) {
    const Result<std::vector<std::string>> variants = list_variants(file);
    if (!variants.ok()) return variants.error();
    for (const std::string& variant : variants.value()) {
      Result<Scenario> scenario = load_scenario(file, variant, settings);
      if (!scenario.ok()) return scenario.error();
      scenarios.push_back(std::move(scenario).value());
    }
  }
  return scenarios;
}

Judged judge(const Scenario& scenario) {
  Result<ScenarioResult> result = run_scenario(scenario, {});
  if (!result.ok()) return {.result = {}, .unmet = {{result.error().text()}}};
  std::vector<UnmetExpectation> complaints = unmet(scenario, result.value());
  return {.result = std::move(result).value(), .unmet = std::move(complaints)};
}

}  // namespace lockstep::cli
