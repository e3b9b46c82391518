// `lockstep test`: every variant of every file against what it expects.
#include "lockstep/harness/cli/commands.h"
#include "lockstep/harness/cli/judge.h"
#include "lockstep/harness/cli/outcome.h"
#include "lockstep/harness/cli/settings.h"
#include "lockstep/harness/report/report_file.h"
#include "lockstep/harness/run/expect.h"

namespace lockstep::cli {
namespace {

/// One line per variant, and one more for each further expectation that was not met.
bool test_variant(const Scenario& scenario, bool all_laws, ReportFile& file, Terminal& terminal) {
  const std::string name =
      scenario.path + (scenario.variant.empty() ? "" : " [" + scenario.variant + "]");
  Judged judged = judge(scenario);
  terminal.out << (judged.unmet.empty() ? "ok    " : "FAIL  ") << name << "\n";
  for (const UnmetExpectation& complaint : judged.unmet)
    terminal.out << "      " << complaint.text << "\n";
  if (all_laws) terminal.out << render_laws(judged.result.report, terminal.color);
  if (file.wanted()) {
    if (judged.result.report.title.empty()) judged.result.report.title = name;
    RunView view = view_of(judged.result);
    view.unmet.emplace();
    for (const UnmetExpectation& complaint : judged.unmet) view.unmet->push_back(complaint.text);
    file.add(view);
  }
  return judged.unmet.empty();
}

}  // namespace

ExitCode test(const TestArguments& arguments, Terminal& terminal) {
  Result<ReportFile> file =
      ReportFile::make({"--report", "lockstep test"}, arguments.report, false);
  if (!file.ok()) return bad_input(terminal, file.error().text());
  const Result<std::vector<Setting>> settings = parse_settings(arguments.settings);
  if (!settings.ok()) return bad_input(terminal, settings.error().text());
  const Result<std::vector<Scenario>> scenarios =
      load_all_variants(arguments.files, settings.value());
  if (!scenarios.ok()) return bad_input(terminal, scenarios.error().text());
  bool all_met = true;
  for (const Scenario& scenario : scenarios.value()) {
    if (!test_variant(scenario, arguments.laws, file.value(), terminal)) all_met = false;
  }
  const Outcome written = file.value().write();
  if (!written.ok()) return bad_input(terminal, written.error().text());
  return all_met ? ExitCode::kOk : ExitCode::kFindings;
}

}  // namespace lockstep::cli
