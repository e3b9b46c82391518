// Why a step's gradient is not what one process would have used.
#pragma once

#include <string>
#include <vector>

#include "lockstep/harness/companion/step_values.h"
#include "lockstep/laws/causes.h"
#include "lockstep/train/job.h"

namespace lockstep {

struct DifferenceCause {
  std::string message;  ///< Follows the finding's own, or empty.
  Cause cause = Cause::kNone;
};

/// A step whose gradients differ from those of one process.
struct DifferentStep {
  const Job& job;
  const std::vector<std::vector<RankStep>>& ranks;
  const NameTable& names;  ///< Of the trace that the ranks' steps are of.
  std::size_t k = 0;
  /// One process's gradients, by name.
  std::map<std::string, std::vector<double>> reference;
};

/// Looks at what the job does to gradients, at gradients left over from the step before, at whether
/// the ranks' own gradients are what their rows give, and at the weights with which they add up to
/// the used ones.
///
/// Requires: rank 0's values of the step are recorded.
DifferenceCause explain_difference(const DifferentStep& step);

}  // namespace lockstep
