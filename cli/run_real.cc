// `lockstep run --backend gloo|nccl`: a scenario with one process a rank.
#include "cli/commands.h"
#include "cli/outcome.h"
#include "cli/real_ranks.h"
#include "cli/report_file.h"
#include "cli/shared_state.h"

namespace lockstep::cli {
namespace {

std::string simulator_only(const RunArguments& arguments) {
  if (arguments.twice) return "--twice";
  if (arguments.schedule_seed) return "--schedule-seed";
  if (!arguments.repro.empty()) return "--repro";
  return {};
}

/// What repeats the run, as far as processes can: with the same data, not the same timing.
std::string repeat_command(const RunArguments& arguments) {
  std::string command = "lockstep run " + arguments.file + " --backend " + arguments.backend;
  if (!arguments.variant.empty()) command += " --variant " + arguments.variant;
  if (arguments.nproc > 0) command += " --nproc " + std::to_string(arguments.nproc);
  for (const std::string& setting : arguments.settings) command += " --set '" + setting + "'";
  return command;
}

}  // namespace

ExitCode run_real(const RunArguments& arguments, ReportFile& file, Terminal& terminal) {
  const std::string option = simulator_only(arguments);
  if (!option.empty()) {
    return bad_input(terminal, "lockstep run: " + option + " is for the simulator");
  }
  if (const auto refused = refuse_backend("run", arguments.backend, terminal)) return *refused;
  RealRequest request = {.command = "run",
                         .file = arguments.file,
                         .variant = arguments.variant,
                         .settings = arguments.settings,
                         .backend = arguments.backend,
                         .timeout_s = arguments.timeout_s,
                         .values = arguments.values,
                         .trace = arguments.trace,
                         .flip_bit = {}};
  const Result<Scenario> scenario = load_request(request, arguments.nproc);
  if (!scenario.ok()) return bad_input(terminal, scenario.error().text());
  const RealRun run = run_on_processes(request, scenario.value(), terminal);
  if (!run.loaded) return run.failed.value_or(ExitCode::kRunFailed);
  Result<ScenarioResult> judged = judge_scenario(scenario.value(), *run.loaded);
  if (!judged.ok()) return bad_input(terminal, judged.error().text());
  ScenarioResult& result = judged.value();
  result.report.replay = repeat_command(arguments);
  result.report.first_divergence = first_divergence(result.report, *run.loaded->trace);
  RunView view = view_of(result);
  view.backend = arguments.backend;
  view.wait_for = nullptr;
  file.add(view);
  const Outcome written = file.write();
  if (!written.ok()) return bad_input(terminal, written.error().text());
  if (!arguments.quiet) print_result(scenario.value(), result, terminal);
  return run.failed.value_or(exit_code(result.report));
}

}  // namespace lockstep::cli
