// `lockstep crosscheck`: a scenario in the simulator and on real processes, event by event.
#include "lockstep/crosscheck/bit_flip.h"
#include "lockstep/crosscheck/compare.h"

#include "cli/commands.h"
#include "cli/real_ranks.h"

namespace lockstep::cli {
namespace {

/// Makes the simulator reduce as the backend does: in the order of Gloo's ring or of NCCL's.
void reduce_as(const std::string& backend, Scenario& scenario) {
  scenario.session.group.order =
      backend == "nccl" ? ReductionOrder::kNcclRing : ReductionOrder::kGlooRing;
  // What one process would have done says nothing about two backends.
  scenario.session.policy.allow.emplace_back("single-process-equal");
  scenario.expect.values.clear();
}

}  // namespace

ExitCode crosscheck(const CrosscheckArguments& arguments, Terminal& terminal) {
  if (const auto refused = refuse_backend("crosscheck", arguments.against, terminal)) {
    return *refused;
  }
  if (!arguments.flip_bit.empty()) {
    const Result<BitFlip> flip = parse_bit_flip(arguments.flip_bit);
    if (!flip.ok()) return bad_input(terminal, "lockstep crosscheck: " + flip.error().text());
  }
  RealRequest request = {.command = "crosscheck",
                         .file = arguments.file,
                         .variant = arguments.variant,
                         .settings = arguments.settings,
                         .backend = arguments.against,
                         .timeout_s = arguments.timeout_s,
                         .digests_only = true,
                         .trace = arguments.trace,
                         .flip_bit = arguments.flip_bit};
  Result<Scenario> scenario = load_request(request, arguments.nproc);
  if (!scenario.ok()) return bad_input(terminal, scenario.error().text());
  const RealRun real = run_on_processes(request, scenario.value(), terminal);
  Scenario& simulation = scenario.value();
  reduce_as(arguments.against, simulation);
  const Result<ScenarioResult> simulated = run_scenario(simulation, {});
  if (!simulated.ok()) return bad_input(terminal, simulated.error().text());
  if (real.failed || !real.loaded) return ExitCode::kRunFailed;

  const Comparison comparison = compare_runs(*simulated.value().session.trace, *real.loaded->trace);
  if (comparison.first) {
    terminal.out << "first difference: " << render(*comparison.first, "sim", arguments.against)
                 << "\n";
    return ExitCode::kFindings;
  }
  terminal.out << "equal: " << comparison.n_events << " events on " << simulation.n_ranks
               << " ranks, sim (" << name_of(simulation.session.group.order) << ") and "
               << arguments.against << "\n";
  return ExitCode::kOk;
}

}  // namespace lockstep::cli
