// `lockstep check`: the laws on traces that a run, or a recorder in a PyTorch job, has written, and
// on dumps of PyTorch's Flight Recorder.
#include <filesystem>

#include "lockstep/base/text.h"
#include "lockstep/compare/bisect.h"
#include "lockstep/formats/flight_recorder.h"
#include "lockstep/harness/cli/commands.h"
#include "lockstep/harness/cli/outcome.h"
#include "lockstep/harness/report/report_file.h"
#include "lockstep/laws/finish_report.h"
#include "lockstep/laws/trace_check.h"

namespace lockstep::cli {
namespace {

/// What is judged at once: the folders of one job, or the dumps of one run.
struct Judgeable {
  std::vector<std::string> folders;
  std::vector<std::string> dumps;  ///< Where there are no folders.

  std::string paths() const { return join(folders.empty() ? dumps : folders, " "); }
};

/// Folders job by job; files are dumps of PyTorch's Flight Recorder, all of one run.
std::vector<Judgeable> divide(const std::vector<std::string>& paths) {
  std::vector<std::string> folders;
  std::vector<std::string> dumps;
  for (const std::string& path : paths) {
    (std::filesystem::is_regular_file(path) ? dumps : folders).push_back(path);
  }
  std::vector<Judgeable> parts;
  for (std::vector<std::string>& job : folders_by_job(folders))
    parts.push_back({std::move(job), {}});
  if (!dumps.empty()) parts.push_back({{}, std::move(dumps)});
  return parts;
}

std::string title_of(CallSource source, std::size_t n) {
  const std::string number = std::to_string(n);
  switch (source) {
    case CallSource::kFlightRecorder:
      return "Flight Recorder, " + number + (n == 1 ? " dump" : " dumps");
    case CallSource::kClog:
      return "torchcomms' Clog, " + number + (n == 1 ? " log" : " logs");
    case CallSource::kInspector:
      return "NCCL Inspector, " + number + (n == 1 ? " file" : " files");
    case CallSource::kRas:
      return "NCCL RAS, 1 status";
  }
  return "";
}

/// A job's report and what else is shown of it.
struct Checked {
  Report report;
  std::string json;
  std::string times;  ///< Empty: not asked for, or there are none.
};

Result<Checked> check_part(const Judgeable& part,
                           const CheckArguments& arguments,
                           ReportFile& file) {
  const Result<LoadedTrace> loaded =
      part.dumps.empty() ? read_jsonl(part.folders) : read_flight_recorder(part.dumps);
  if (!loaded.ok()) return loaded.error();
  LawPolicy policy;
  policy.allow = arguments.allow;
  std::vector<std::string> ids = arguments.laws;
  // Dumps hold calls, and nothing else that a law could check.
  if (ids.empty() && !part.dumps.empty()) ids = {"collectives-match", "progress"};
  Result<Report> report = check_trace(loaded.value(), policy, ids);
  if (!report.ok()) return report.error();
  const std::string& scenario = loaded.value().header.scenario;
  std::string title = part.paths() + (scenario.empty() ? "" : ": " + scenario);
  if (!part.dumps.empty()) {
    const auto source = parse_enum<CallSource>(loaded.value().header.run_id);
    title = title_of(source.value_or(CallSource::kFlightRecorder), part.dumps.size());
  }
  finish_report(report.value(),
                {.title = title,
                 .replay = "lockstep check " + part.paths(),
                 .first_divergence = first_divergence_of(loaded.value().trace.get())});
  RunView view;
  view.report = &report.value();
  view.trace = loaded.value().trace.get();
  view.backend = loaded.value().header.backend;
  view.one_clock = !loaded.value().header.clock.empty();
  file.add(view);
  Checked checked;
  if (arguments.json) checked.json = report_json(view);
  if (arguments.times) checked.times = times_lines(times_of(view));
  checked.report = std::move(report).value();
  return checked;
}

}  // namespace

ExitCode check(const CheckArguments& arguments, Terminal& terminal) {
  // A misspelt law is reported before any folder is read.
  const Result<LawSet> known = LawSet::make({}, arguments.laws);
  if (!known.ok()) return bad_input(terminal, "lockstep check: " + known.error().text());
  Result<ReportFile> file =
      ReportFile::make({"--report", "lockstep check"}, arguments.report, false);
  if (!file.ok()) return bad_input(terminal, file.error().text());
  bool all_hold = true;
  for (const Judgeable& part : divide(arguments.folders)) {
    const Result<Checked> checked = check_part(part, arguments, file.value());
    if (!checked.ok()) return bad_input(terminal, checked.error().text());
    const Report& report = checked.value().report;
    terminal.out << (arguments.json ? checked.value().json
                                    : render_text(report, style(arguments.all_laws, terminal)) +
                                          checked.value().times);
    if (!report.ok()) all_hold = false;
  }
  const Outcome written = file.value().write();
  if (!written.ok()) return bad_input(terminal, written.error().text());
  return all_hold ? ExitCode::kOk : ExitCode::kFindings;
}

}  // namespace lockstep::cli
