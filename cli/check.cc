// `lockstep check`: the laws on traces that a run, or a recorder in a PyTorch job, has written.
#include "lockstep/base/text.h"
#include "lockstep/laws/law.h"
#include "lockstep/laws/report.h"
#include "lockstep/trace/jsonl.h"
#include "lockstep/trace/trace_digest.h"

#include "cli/commands.h"

namespace lockstep::cli {
namespace {

bool ended_stuck(const MemoryTrace& trace) {
  for (std::int32_t r = 0; r < trace.n_ranks(); ++r) {
    for (const Event& event : trace.events(static_cast<Rank>(r))) {
      const auto* end = std::get_if<EndEvent>(&event.body);
      if (end != nullptr && trace.names().text(end->outcome) == "stuck") return true;
    }
  }
  return false;
}

Result<Report> check_folder(const std::string& folder, const CheckArguments& arguments) {
  const Result<LoadedTrace> loaded = read_jsonl(folder);
  if (!loaded.ok()) return loaded.error();
  const TraceHeader& header = loaded.value().header;
  const MemoryTrace& trace = *loaded.value().trace;
  LawPolicy policy;
  policy.n_ranks = header.n_ranks;
  policy.exact = header.exact;
  policy.allow = arguments.allow;
  Result<LawSet> laws = LawSet::make(policy, arguments.laws);
  if (!laws.ok()) return laws.error();

  TraceDigest digest;
  SinkChain sinks;
  sinks.add(digest);
  sinks.add(laws.value());
  lockstep::replay(trace, sinks);

  Report report;
  report.title = folder + (header.scenario.empty() ? "" : ": " + header.scenario);
  report.n_ranks = header.n_ranks;
  report.laws = laws.value().finish(trace.names());
  // Files keep each rank's order, not the interleaving that a trace digest covers: the run's own
  // names it.
  report.trace_digest = parse_hex64(header.run_id).value_or(0);
  report.result_digest = digest.result();
  report.n_events = digest.n_events();
  report.replay = "lockstep check " + folder;
  if (report.n_findings() > 0) report.outcome = "findings";
  if (ended_stuck(trace)) report.outcome = "hang";
  return report;
}

}  // namespace

ExitCode check(const CheckArguments& arguments, Terminal& terminal) {
  // A misspelt law is reported before any folder is read.
  const Result<LawSet> known = LawSet::make({}, arguments.laws);
  if (!known.ok()) return bad_input(terminal, "lockstep check: " + known.error().text());
  bool all_hold = true;
  for (const std::string& folder : arguments.folders) {
    const Result<Report> report = check_folder(folder, arguments);
    if (!report.ok()) return bad_input(terminal, report.error().text());
    terminal.out << (arguments.json ? render_json(report.value())
                                    : render_text(report.value(), terminal.color));
    if (!report.value().ok()) all_hold = false;
  }
  return all_hold ? ExitCode::kOk : ExitCode::kFindings;
}

}  // namespace lockstep::cli
