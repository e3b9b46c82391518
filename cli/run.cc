// `lockstep run`: one scenario, once or twice.
#include <filesystem>

#include "lockstep/base/text.h"
#include "lockstep/process/disk_files.h"
#include "lockstep/scenario/scenario.h"
#include "lockstep/trace/jsonl.h"

#include "cli/commands.h"
#include "cli/first_difference.h"
#include "cli/outcome.h"
#include "cli/report_file.h"
#include "cli/settings.h"
#include "cli/shared_state.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

/// A multiple of 64 that is no multiple of a page, so that everything lands elsewhere.
constexpr std::size_t kShiftBytes = 4096 + 576;

Result<Scenario> load(const RunArguments& arguments) {
  std::vector<std::string> texts = arguments.settings;
  if (arguments.nproc > 0) {
    texts.insert(texts.begin(), "world.ranks=" + std::to_string(arguments.nproc));
  }
  const Result<std::vector<Setting>> settings = parse_settings(texts);
  if (!settings.ok()) return settings.error();
  return load_scenario(arguments.file, arguments.variant, settings.value());
}

std::string repeat_command(const RunArguments& arguments) {
  std::string command = "lockstep run " + arguments.file;
  if (!arguments.variant.empty()) command += " --variant " + arguments.variant;
  if (arguments.nproc > 0) command += " --nproc " + std::to_string(arguments.nproc);
  if (arguments.schedule_seed) {
    command += " --schedule-seed " + std::to_string(*arguments.schedule_seed);
  }
  for (const std::string& setting : arguments.settings) command += " --set '" + setting + "'";
  return command;
}

Outcome write_reproduction(const RunArguments& arguments,
                           const std::string& path,
                           const ScenarioResult& result) {
  // A schedule that its strategy and seed make again is not worth writing down.
  Replay replay;
  replay.variant = arguments.variant;
  replay.schedule_seed = arguments.schedule_seed;
  replay.folder = fs::absolute(arguments.file).parent_path().string();
  replay.scenario = fs::path(arguments.file).filename().string();
  replay.settings = arguments.settings;
  replay.trace_digest = result.report.trace_digest;
  replay.result_digest = result.report.result_digest;
  const Result<std::string> text = render_reproduction(arguments.file, replay);
  if (!text.ok()) return text.error();
  return DiskFiles().publish(path, text.value());
}

/// Trace, reproduction and report, as asked for.
Outcome write_files(const RunArguments& arguments,
                    const Scenario& scenario,
                    ScenarioResult& result,
                    ReportFile& file) {
  Report& report = result.report;
  report.replay = repeat_command(arguments);
  if (!arguments.trace.empty()) {
    const TraceHeader header = {.run_id = hex64(report.trace_digest),
                                .backend = "sim",
                                .scenario = scenario.path,
                                .scenario_digest = scenario.digest,
                                .n_ranks = scenario.n_ranks,
                                .exact = scenario.session.exact,
                                .watched = true,
                                .coverage = scenario.session.policy.coverage,
                                .library = "lockstep " LOCKSTEP_VERSION};
    Outcome written = write_jsonl(*result.session.trace, header, arguments.trace, arguments.values);
    if (!written.ok()) return written;
  }
  std::string repro = arguments.repro;
  if (repro.empty() && !arguments.trace.empty()) {
    repro = (fs::path(arguments.trace) / "repro.toml").string();
  }
  if (!repro.empty() && !report.ok()) {
    Outcome written = write_reproduction(arguments, repro, result);
    if (!written.ok()) return written;
    report.replay = "lockstep replay " + repro;
  }
  file.add(view_of(result));
  return file.write();
}

/// The second run, elsewhere in memory. Returns what differs, or empty.
std::string difference(const Scenario& scenario, RunChoices choices, const ScenarioResult& first) {
  choices.address_shift = kShiftBytes;
  const Result<ScenarioResult> second = run_scenario(scenario, choices);
  if (!second.ok()) return second.error().text();
  const Report& again = second.value().report;
  const bool equal = again.trace_digest == first.report.trace_digest &&
                     again.result_digest == first.report.result_digest;
  if (equal) return {};
  const auto place = first_difference(*first.session.trace, *second.value().session.trace);
  return place ? place->text : "the same events in another order";
}

}  // namespace

ExitCode run(const RunArguments& arguments, Terminal& terminal) {
  Result<ReportFile> file = ReportFile::make("run", arguments.report, arguments.backend == "sim");
  if (!file.ok()) return bad_input(terminal, file.error().text());
  if (arguments.backend != "sim") return run_real(arguments, file.value(), terminal);
  const Result<Scenario> scenario = load(arguments);
  if (!scenario.ok()) return bad_input(terminal, scenario.error().text());

  RunChoices choices;
  choices.schedule_seed = arguments.schedule_seed;
  choices.values = arguments.values;
  Result<ScenarioResult> run = run_scenario(scenario.value(), choices);
  if (!run.ok()) return bad_input(terminal, run.error().text());
  ScenarioResult& result = run.value();

  if (result.session.trace != nullptr) {
    result.report.first_divergence = first_divergence(result.report, *result.session.trace);
  }
  const Outcome written = write_files(arguments, scenario.value(), result, file.value());
  if (!written.ok()) return bad_input(terminal, written.error().text());
  if (!arguments.quiet) print_result(scenario.value(), result, terminal);
  if (arguments.twice) {
    const std::string differs = difference(scenario.value(), choices, result);
    if (!differs.empty()) {
      terminal.err << "lockstep run: a second run differs from the first: " << differs
                   << " (a bug in Lockstep, or a program that reads addresses)\n";
      return ExitCode::kInternal;
    }
    if (!arguments.quiet) terminal.out << "second run: the same digests at other addresses\n";
  }
  return exit_code(result.report);
}

}  // namespace lockstep::cli
