// `lockstep crosscheck`: a scenario in the simulator and on real processes, event by event.
#include "lockstep/harness/cli/commands.h"
#include "lockstep/harness/cli/real_ranks.h"
#include "lockstep/harness/crosscheck/bit_flip.h"
#include "lockstep/harness/crosscheck/order_search.h"

namespace lockstep::cli {

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
  const std::vector<ReductionOrder> orders = legal_orders(arguments.against, scenario.value());
  if (real.failed || !real.loaded) return ExitCode::kRunFailed;
  const std::int32_t n_ranks = scenario.value().n_ranks;
  std::optional<ScenarioResult> laws;
  if (arguments.laws) {
    Result<ScenarioResult> judged = judge_scenario(scenario.value(), *real.loaded);
    if (!judged.ok()) return bad_input(terminal, judged.error().text());
    laws = std::move(judged).value();
  }
  const Result<OrderSearch> search =
      search_order(std::move(scenario).value(), *real.loaded->trace, orders);
  if (!search.ok()) return bad_input(terminal, search.error().text());
  terminal.out << render(search.value(), arguments.against, n_ranks) << "\n";
  if (laws) terminal.out << render_laws(laws->report, terminal.color);
  return search.value().order ? ExitCode::kOk : ExitCode::kFindings;
}

}  // namespace lockstep::cli
