// `lockstep test`: every variant of every file against what it expects.
#include "cli/commands.h"
#include "cli/judge.h"

namespace lockstep::cli {
namespace {

/// One line a variant, and one more for each further expectation that was not met.
bool test_variant(const Scenario& scenario, Terminal& terminal) {
  const std::string name =
      scenario.path + (scenario.variant.empty() ? "" : " [" + scenario.variant + "]");
  const Judged judged = judge(scenario);
  terminal.out << (judged.unmet.empty() ? "ok    " : "FAIL  ") << name << "\n";
  for (const Unmet& complaint : judged.unmet) terminal.out << "      " << complaint.text << "\n";
  return judged.unmet.empty();
}

}  // namespace

ExitCode test(const TestArguments& arguments, Terminal& terminal) {
  const Result<std::vector<Scenario>> scenarios = load_all_variants(arguments.files);
  if (!scenarios.ok()) return bad_input(terminal, scenarios.error().text());
  bool all_met = true;
  for (const Scenario& scenario : scenarios.value()) {
    if (!test_variant(scenario, terminal)) all_met = false;
  }
  return all_met ? ExitCode::kOk : ExitCode::kFindings;
}

}  // namespace lockstep::cli
