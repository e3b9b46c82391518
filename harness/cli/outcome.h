// How the outcome of a run is shown, and its exit code.
#pragma once

#include "lockstep/harness/cli/commands.h"
#include "lockstep/harness/report/html_report.h"
#include "lockstep/harness/run/run_scenario.h"
#include "lockstep/harness/scenario/scenario.h"

namespace lockstep::cli {

/// How this terminal shows a report; `all_laws`: with every law, as --laws asks for.
TextOptions style(bool all_laws, const Terminal& terminal);

/// The report, then the values and the metric that the scenario asks for: the verdict is what
/// stands at the top.
void print_result(const Scenario& scenario,
                  const ScenarioResult& result,
                  bool all_laws,
                  Terminal& terminal);

/// Where the time went, below an empty line; empty where there are no times.
std::string times_lines(const std::optional<RunTimes>& times);

/// What --quiet leaves: why a run ended with an error, if it did.
void print_error(const Report& report, Terminal& terminal);

/// The result as a report's file shows it. Valid as long as the result.
RunView view_of(const ScenarioResult& result);

/// kOk when all laws hold, kFindings otherwise (hangs and errors of a simulated rank included).
ExitCode exit_code(const Report& report);

}  // namespace lockstep::cli
