// `lockstep run --backend gloo|nccl`: a scenario with one process per rank.
#include "lockstep/harness/cli/commands.h"
#include "lockstep/harness/cli/outcome.h"
#include "lockstep/harness/cli/real_ranks.h"
#include "lockstep/harness/report/report_file.h"
#include "lockstep/harness/run/run_scenario.h"

namespace lockstep::cli {
namespace {

std::string simulator_only(const RunArguments& arguments) {
  if (arguments.twice) return "--twice";
  if (arguments.schedule_seed) return "--schedule-seed";
  if (!arguments.repro.empty()) return "--repro";
  return {};
}

/// What is made of the traces of all ranks, wherever they ran.
struct Judging {
  const RunArguments& arguments;
  const Scenario& scenario;
  ReportFile& file;
  Terminal& terminal;

  /// Prints and writes the report.
  ExitCode judge(const LoadedTrace& loaded) const {
    // With the same data, not the same timing: as far as processes can.
    const std::string replay = scenario.command + " --backend " + arguments.backend;
    const Result<ScenarioResult> judged =
        judge_scenario(scenario, loaded, {.replay = replay, .first_divergence = true});
    if (!judged.ok()) return bad_input(terminal, judged.error().text());
    const ScenarioResult& result = judged.value();
    RunView view = view_of(result);
    view.backend = arguments.backend;
    view.one_clock = false;  // Each rank counts from its own start.
    view.wait_for = nullptr;
    file.add(view);
    const Outcome written = file.write();
    if (!written.ok()) return bad_input(terminal, written.error().text());
    if (!arguments.quiet) print_result(scenario, result, arguments.laws, terminal);
    if (arguments.quiet) print_error(result.report, terminal);
    return exit_code(result.report);
  }
};

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
                         .flip_bit = {},
                         .check_arrivals = arguments.check_arrivals};
  const Result<Scenario> scenario = load_request(request, arguments.nproc);
  if (!scenario.ok()) return bad_input(terminal, scenario.error().text());
  const Judging judging{arguments, scenario.value(), file, terminal};
  const Result<std::optional<LaunchEnvironment>> place = place_among_ranks();
  if (!place.ok()) return bad_input(terminal, "lockstep run: " + place.error().text());
  if (place.value()) {
    const std::int32_t n_started = place.value()->world_size;
    if (n_started != scenario.value().n_ranks) {
      return bad_input(terminal,
                       "lockstep run: the scenario has " +
                           std::to_string(scenario.value().n_ranks) +
                           " ranks, and the launcher started " + std::to_string(n_started) +
                           "; --nproc " + std::to_string(n_started) + " makes them fit");
    }
    const auto judge = [&](const LoadedTrace& loaded) { return judging.judge(loaded); };
    return run_as_rank(request, scenario.value(), *place.value(), judge, terminal);
  }
  const RealRun run = run_on_processes(request, scenario.value(), terminal);
  if (!run.loaded) return run.failed.value_or(ExitCode::kRunFailed);
  const ExitCode judged = judging.judge(*run.loaded);
  return judged == ExitCode::kBadInput ? judged : run.failed.value_or(judged);
}

}  // namespace lockstep::cli
