// `lockstep check`: the laws on traces that a run, or a recorder in a PyTorch job, has written.
#include "lockstep/laws/trace_check.h"

#include "cli/commands.h"
#include "cli/report_file.h"
#include "cli/shared_state.h"

namespace lockstep::cli {
namespace {

Result<Report> check_folder(const std::string& folder,
                            const CheckArguments& arguments,
                            ReportFile& file) {
  const Result<LoadedTrace> loaded = read_jsonl(folder);
  if (!loaded.ok()) return loaded.error();
  LawPolicy policy;
  policy.allow = arguments.allow;
  Result<Report> report = check_trace(loaded.value(), policy, arguments.laws);
  if (!report.ok()) return report;
  const std::string& scenario = loaded.value().header.scenario;
  report.value().title = folder + (scenario.empty() ? "" : ": " + scenario);
  report.value().replay = "lockstep check " + folder;
  report.value().first_divergence = first_divergence(report.value(), *loaded.value().trace);
  RunView view;
  view.report = &report.value();
  view.trace = loaded.value().trace.get();
  view.backend = loaded.value().header.backend;
  file.add(view);
  return report;
}

}  // namespace

ExitCode check(const CheckArguments& arguments, Terminal& terminal) {
  // A misspelt law is reported before any folder is read.
  const Result<LawSet> known = LawSet::make({}, arguments.laws);
  if (!known.ok()) return bad_input(terminal, "lockstep check: " + known.error().text());
  Result<ReportFile> file = ReportFile::make("check", arguments.report, false);
  if (!file.ok()) return bad_input(terminal, file.error().text());
  bool all_hold = true;
  for (const std::string& folder : arguments.folders) {
    const Result<Report> report = check_folder(folder, arguments, file.value());
    if (!report.ok()) return bad_input(terminal, report.error().text());
    terminal.out << (arguments.json ? render_json(report.value())
                                    : render_text(report.value(), terminal.color));
    if (!report.value().ok()) all_hold = false;
  }
  const Outcome written = file.value().write();
  if (!written.ok()) return bad_input(terminal, written.error().text());
  return all_hold ? ExitCode::kOk : ExitCode::kFindings;
}

}  // namespace lockstep::cli
