// `lockstep replay`: a run again, from the file that an earlier one wrote.
#include "lockstep/harness/format/replay.h"

#include "lockstep/base/text.h"
#include "lockstep/harness/cli/commands.h"
#include "lockstep/harness/cli/outcome.h"
#include "lockstep/harness/cli/settings.h"
#include "lockstep/harness/format/load.h"
#include "lockstep/harness/run/run_scenario.h"
#include "lockstep/harness/scenario/scenario.h"

namespace lockstep::cli {
namespace {

struct Prepared {
  Scenario scenario;
  RunChoices choices;
};

Result<Prepared> prepare(const std::string& file, const Replay& replay) {
  const Result<std::vector<Setting>> settings = parse_settings(replay.settings);
  if (!settings.ok()) return Error{settings.error().message, file};
  Prepared prepared;
  prepared.choices.schedule_seed = replay.schedule_seed;
  prepared.choices.schedule = replay.schedule;
  prepared.choices.explain = true;
  prepared.choices.report = {.replay = "lockstep replay " + file, .first_divergence = true};
  Result<Scenario> scenario = load_scenario(file, replay.variant, settings.value());
  if (!scenario.ok()) return scenario.error();
  prepared.scenario = std::move(scenario).value();
  return prepared;
}

}  // namespace

ExitCode replay(const ReplayArguments& arguments, Terminal& terminal) {
  const Result<Replay> replay = load_replay(arguments.file);
  if (!replay.ok()) return bad_input(terminal, replay.error().text());
  const Result<Prepared> prepared = prepare(arguments.file, replay.value());
  if (!prepared.ok()) return bad_input(terminal, prepared.error().text());
  const Prepared& ready = prepared.value();
  const Result<ScenarioResult> run = run_scenario(ready.scenario, ready.choices);
  if (!run.ok()) return bad_input(terminal, run.error().text());
  const Report& report = run.value().report;
  if (!arguments.quiet) print_result(ready.scenario, run.value(), arguments.laws, terminal);

  if (report.trace_digest != replay.value().trace_digest) {
    const bool same_result = report.result_digest == replay.value().result_digest;
    terminal.err << arguments.file << ": not reproduced: trace digest "
                 << hex64(report.trace_digest) << ", the file says "
                 << hex64(replay.value().trace_digest)
                 << (same_result ? " (the results are equal)" : "")
                 << "; the file or the version of lockstep has changed\n";
    return ExitCode::kBadInput;
  }
  if (!arguments.quiet) terminal.out << "reproduced: the same trace, event for event\n";
  return exit_code(report);
}

}  // namespace lockstep::cli
