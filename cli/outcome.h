// How the outcome of a run is shown and what it tells the shell.
#pragma once

#include "lockstep/report/html_report.h"
#include "lockstep/scenario/scenario.h"

#include "cli/commands.h"

namespace lockstep::cli {

/// The values a scenario asks for, then the report.
void print_result(const Scenario& scenario, const ScenarioResult& result, Terminal& terminal);

/// The result as a report's file shows it. Valid as long as the result.
RunView view_of(const ScenarioResult& result);

/// kOk when all laws hold, kFindings otherwise (hangs and errors of a simulated rank included).
ExitCode exit_code(const Report& report);

}  // namespace lockstep::cli
