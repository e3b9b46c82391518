// The one place where a report is finished: its outcome, title, replay line and first divergence.
#pragma once

#include <functional>
#include <string>

#include "lockstep/laws/report.h"

namespace lockstep {

/// What a report gets from the code that ran or read the ranks. What is left empty is unchanged.
struct ReportFinish {
  std::string title = {};
  std::string replay = {};  ///< The command, or the instructions, to repeat the run.
  /// Where what the ranks share begins to differ (compare/bisect.h); asked only where it matters.
  std::function<std::string()> first_divergence = {};
};

/// Finishes `report`: takes over `finish`, then decides the outcome.
///
/// A run whose ranks could not continue is a "hang". Otherwise a rank that failed on its own makes
/// it an "error", a broken law "findings", and a failed collective without any finding an "error".
/// With `finish.first_divergence`, and if a law about replicas is broken, it also says where what
/// the ranks share begins to differ.
///
/// Requires: `laws`, `error`, `stuck` and `own_failure` are filled in. Simulated runs, real runs
///     and traces all end here; call it again after adding a law.
void finish_report(Report& report, const ReportFinish& finish = {});

}  // namespace lockstep
