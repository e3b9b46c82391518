// What does not matter for a failure: found out by trying.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/harness/explore/search/trial.h"

namespace lockstep::explore {

/// One thing that was varied, everything else as in the failing document.
struct Variation {
  std::string what;                    ///< "the number of ranks"
  std::vector<std::string> same;       ///< Values with which the same failure came.
  std::vector<std::string> otherwise;  ///< Values with a different failure.
  std::vector<std::string> healthy;    ///< Values with which nothing failed.
  /// Of a number, where the document names it: what it is there.
  std::optional<std::int64_t> now{};
};

/// Varies the world's size, the schedule, the job's seed, the model and whatever keys the schema says
/// to vary of a document that fails by `failure`. Values that the
/// document cannot have are left out, and so is what has none at all.
///
/// Deterministic: a function of the document.
std::vector<Variation> vary(const TrialRunner& runner,
                            const TomlNode& document,
                            const Failure& failure);

/// The variations as text, one per line: first those whose every value showed the same failure, or
/// every number from the smallest failing one on.
std::vector<std::string> sentences(const std::vector<Variation>& variations);

}  // namespace lockstep::explore
