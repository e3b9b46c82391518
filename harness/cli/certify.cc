// `lockstep certify`: whether every step of a job uses the gradient that one process would use.
#include "lockstep/harness/certify/certify_scenario.h"
#include "lockstep/harness/cli/commands.h"
#include "lockstep/harness/cli/settings.h"
#include "lockstep/harness/format/load.h"

namespace lockstep::cli {

ExitCode certify(const CertifyArguments& arguments, Terminal& terminal) {
  const Result<std::vector<Setting>> settings = parse_settings(arguments.settings);
  if (!settings.ok()) return bad_input(terminal, settings.error().text());
  const Result<Scenario> scenario =
      load_scenario(arguments.file, arguments.variant, settings.value());
  if (!scenario.ok()) return bad_input(terminal, scenario.error().text());
  const Outcome others = check_other_variants(arguments.file, arguments.variant);
  if (!others.ok()) return bad_input(terminal, others.error().text());

  std::optional<Objective> objective;
  if (!arguments.objective.empty()) {
    Result<Objective> parsed = parse_objective(arguments.objective, scenario.value().n_ranks);
    if (!parsed.ok()) {
      return bad_input(terminal, "lockstep certify: --objective: " + parsed.error().text());
    }
    objective = std::move(parsed).value();
  }
  const Result<Certificate> certificate = certify_scenario(scenario.value(), objective);
  if (!certificate.ok()) return bad_input(terminal, certificate.error().text());
  terminal.out << certificate.value();
  return certificate.value().certified() ? ExitCode::kOk : ExitCode::kFindings;
}

}  // namespace lockstep::cli
