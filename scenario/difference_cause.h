// Why a step's gradient is not what one process would have used.
#pragma once

#include <string>
#include <vector>

#include "lockstep/scenario/step_values.h"
#include "lockstep/train/job.h"

namespace lockstep {

struct DifferenceCause {
  std::string message;  ///< Behind the finding's own, or empty.
  std::string cause;    ///< As the zoo calls it, or empty.
};

/// Looks at what the job does to gradients, at gradients left over from the step before, and at the
/// weights with which the ranks' own gradients add up to the used ones.
///
/// Requires: rank 0's values of step `k` are recorded. `reference` has one process's gradients.
DifferenceCause explain_difference(const Job& job,
                                   const std::vector<std::vector<RankStep>>& ranks,
                                   std::size_t k,
                                   const std::map<std::string, std::vector<double>>& reference);

}  // namespace lockstep
