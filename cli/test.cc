// `lockstep test`: every variant of every file against what it expects.
#include "lockstep/scenario/scenario.h"

#include "cli/commands.h"

namespace lockstep::cli {
namespace {

/// One line a variant, and one more for each further expectation that was not met.
bool test_variant(const Scenario& scenario, Terminal& terminal) {
  const std::string name =
      scenario.path + (scenario.variant.empty() ? "" : " [" + scenario.variant + "]");
  const Result<ScenarioResult> result = run_scenario(scenario, {});
  const std::vector<std::string> complaints = result.ok()
                                                  ? unmet(scenario, result.value())
                                                  : std::vector<std::string>{result.error().text()};
  terminal.out << (complaints.empty() ? "ok    " : "FAIL  ") << name << "\n";
  for (const std::string& complaint : complaints) terminal.out << "      " << complaint << "\n";
  return complaints.empty();
}

}  // namespace

ExitCode test(const TestArguments& arguments, Terminal& terminal) {
  // All input is read before anything runs: a typo in the last file costs seconds, not the whole
  // run.
  std::vector<Scenario> scenarios;
  for (const std::string& file : arguments.files) {
    const Result<std::vector<std::string>> variants = list_variants(file);
    if (!variants.ok()) return bad_input(terminal, variants.error().text());
    for (const std::string& variant : variants.value()) {
      Result<Scenario> scenario = load_scenario(file, variant, {});
      if (!scenario.ok()) return bad_input(terminal, scenario.error().text());
      scenarios.push_back(std::move(scenario).value());
    }
  }
  bool all_met = true;
  for (const Scenario& scenario : scenarios) {
    if (!test_variant(scenario, terminal)) all_met = false;
  }
  return all_met ? ExitCode::kOk : ExitCode::kFindings;
}

}  // namespace lockstep::cli
