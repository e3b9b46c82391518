// `lockstep run`: one scenario, once or twice.
#include <array>
#include <exception>
#include <filesystem>
#include <new>

#include "lockstep/base/disk_files.h"
#include "lockstep/base/text.h"
#include "lockstep/compare/first_difference.h"
#include "lockstep/formats/jsonl.h"
#include "lockstep/harness/cli/commands.h"
#include "lockstep/harness/cli/outcome.h"
#include "lockstep/harness/cli/progress_line.h"
#include "lockstep/harness/cli/settings.h"
#include "lockstep/harness/format/load.h"
#include "lockstep/harness/format/replay.h"
#include "lockstep/harness/report/report_file.h"
#include "lockstep/harness/run/run_scenario.h"
#include "lockstep/harness/scenario/scenario.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

/// A multiple of 64 but not of the page size, so that everything moves.
constexpr std::size_t kShiftBytes = 4096 + 576;

Result<Scenario> load(const RunArguments& arguments) {
  if (arguments.check_arrivals) {
    return Error{"lockstep run: --check-arrivals is for real ranks; add --backend gloo", {}};
  }
  std::vector<std::string> texts = arguments.settings;
  if (arguments.nproc > 0) {
    texts.insert(texts.begin(), "world.ranks=" + std::to_string(arguments.nproc));
  }
  const Result<std::vector<Setting>> settings = parse_settings(texts);
  if (!settings.ok()) return settings.error();
  Result<Scenario> scenario = load_scenario(arguments.file, arguments.variant, settings.value());
  if (!scenario.ok()) return scenario;
  const Outcome others = check_other_variants(arguments.file, arguments.variant);
  if (!others.ok()) return others.error();
  return scenario;
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

/// Where a run that is not ok leaves its reproduction; empty: nowhere.
std::string reproduction_of(const RunArguments& arguments) {
  if (!arguments.repro.empty() || arguments.trace.empty()) return arguments.repro;
  return (fs::path(arguments.trace) / "repro.toml").string();
}

RunChoices choices_of(const RunArguments& arguments) {
  RunChoices choices;
  choices.schedule_seed = arguments.schedule_seed;
  choices.values = arguments.values;
  choices.explain = !arguments.quiet;
  choices.report.first_divergence = true;
  if (const std::string repro = reproduction_of(arguments); !repro.empty()) {
    choices.report.replay_of_failure = "lockstep replay " + repro;
  }
  return choices;
}

/// Trace, reproduction and report, as asked for.
Outcome write_files(const RunArguments& arguments,
                    const Scenario& scenario,
                    const ScenarioResult& result,
                    ReportFile& file) {
  const Report& report = result.report;
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
  const std::string repro = reproduction_of(arguments);
  if (!repro.empty() && !report.ok()) {
    Outcome written = write_reproduction(arguments, repro, result);
    if (!written.ok()) return written;
  }
  file.add(view_of(result));
  return file.write();
}

/// The second run, elsewhere in memory. Returns what differs, or empty.
std::string difference(const Scenario& scenario, RunChoices choices, const ScenarioResult& first) {
  choices.address_shift = kShiftBytes;
  choices.explain = choices.report.first_divergence = false;
  const Result<ScenarioResult> second = run_scenario(scenario, choices);
  if (!second.ok()) return second.error().text();
  const Report& again = second.value().report;
  const bool equal = again.trace_digest == first.report.trace_digest &&
                     again.result_digest == first.report.result_digest;
  if (equal) return {};
  const auto place = first_difference(*first.session.trace, *second.value().session.trace);
  return place ? place->text : "the same events in another order";
}

/// Whether a rank ended because there was no more memory: not what the scenario is about.
bool lacked_memory(const sim::WorldResult& world) {
  if (!world.first_failure) return false;
  try {
    std::rethrow_exception(world.ends[static_cast<std::size_t>(*world.first_failure)].exception);
  } catch (const std::bad_alloc&) {
    return true;
  } catch (...) {  // A program may throw anything.
    return false;
  }
}

/// "120 of 4000 steps", or "120 steps, epoch 2 of 10" of a job that counts epochs.
std::string progress_text(const RunProgress& done) {
  const std::string steps = std::to_string(done.steps);
  if (done.of_steps) return steps + " of " + std::to_string(*done.of_steps) + " steps";
  return steps + " steps, epoch " + std::to_string(done.epoch + 1) + " of " +
         std::to_string(done.of_epochs);
}

/// Errors: an output that would take the scenario's place, or that of another output.
Outcome check_outputs(const RunArguments& arguments) {
  const std::array outputs = {std::pair{"--report", arguments.report},
                              std::pair{"--repro", arguments.repro}};
  std::error_code failed;
  for (const auto& [option, path] : outputs) {
    if (!path.empty() && fs::equivalent(path, arguments.file, failed))
      return Error{"this is the scenario itself", option};
  }
  const bool same = !arguments.report.empty() && arguments.report == arguments.repro;
  return same ? Outcome(Error{"this is the file of --report", "--repro"}) : success();
}

Result<ReportFile> report_file_of(const RunArguments& arguments) {
  if (const Outcome apart = check_outputs(arguments); !apart.ok())
    return Error{"lockstep run: " + apart.error().text(), {}};
  return ReportFile::make(
      {"--report", "lockstep run"}, arguments.report, arguments.backend == "sim");
}

}  // namespace

ExitCode run(const RunArguments& arguments, Terminal& terminal) {
  Result<ReportFile> file = report_file_of(arguments);
  if (!file.ok()) return bad_input(terminal, file.error().text());
  if (arguments.backend != "sim") return run_real(arguments, file.value(), terminal);
  const Result<Scenario> scenario = load(arguments);
  if (!scenario.ok()) return bad_input(terminal, scenario.error().text());

  RunChoices choices = choices_of(arguments);
  ProgressLine progress(terminal);
  if (progress.is_on() && !arguments.quiet) {
    choices.progress = [&](const RunProgress& done) { progress.show(progress_text(done)); };
  }
  Result<ScenarioResult> run = run_scenario(scenario.value(), choices);
  progress.clear();
  choices.progress = nullptr;
  if (!run.ok()) return bad_input(terminal, run.error().text());
  const ScenarioResult& result = run.value();

  const Outcome written = write_files(arguments, scenario.value(), result, file.value());
  if (!written.ok()) return bad_input(terminal, written.error().text());
  if (!arguments.quiet) {
    print_result(scenario.value(), result, arguments.laws, terminal);
    terminal.out << times_lines(times_of(view_of(result)));
  }
  if (arguments.quiet) print_error(result.report, terminal);
  if (arguments.twice) {
    const std::string differs = difference(scenario.value(), choices, result);
    if (!differs.empty()) {
      terminal.err << "lockstep run: a second run differs from the first: " << differs
                   << " (a bug in Lockstep, or a program that reads addresses)\n";
      return ExitCode::kInternal;
    }
    if (!arguments.quiet) terminal.out << "second run: the same digests at other addresses\n";
  }
  if (lacked_memory(result.session.world)) return ExitCode::kRunFailed;
  return exit_code(result.report);
}

}  // namespace lockstep::cli
