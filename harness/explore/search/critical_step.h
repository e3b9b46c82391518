// Why a failure depends on the schedule, in words: what came before what, and passes the other way
// round.
#pragma once

#include <optional>
#include <string>

#include "lockstep/harness/explore/search/trial.h"

namespace lockstep::explore {

/// Where a failing schedule parts from the nearest one that passes.
struct CriticalStep {
  std::string failing;  ///< The schedules, as words: "@0-5=1".
  std::string passing;
  std::string first;   ///< What the failing run did where they part: "rank 0 read the memory ...".
  std::string second;  ///< What came before that in the passing run: "rank 2's all_reduce #4 ...".
  bool both = false;   ///< Each run did both, in another order.
};

/// Compares the document's own schedule, which fails by `failure`, with one that passes and has one
/// deviation less: any one, or all from some place on, which makes the failing one shorter, too.
/// Without such a pair it is compared with a passing schedule of as few deviations as it takes.
///
/// Returns: nothing, if all schedules that were tried fail: then none of them is to blame.
/// Deterministic: a function of the document. Cost: some dozens of runs.
std::optional<CriticalStep> critical_step(const TrialRunner& runner,
                                          const TomlNode& document,
                                          const Failure& failure);

/// "critical step: rank 2's all_reduce #4 completed before rank 0 ...; ...".
std::string sentence(const CriticalStep& step);

}  // namespace lockstep::explore
