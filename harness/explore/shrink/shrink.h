// From a failing scenario to a small one that fails the same way.
#pragma once

#include <string>

#include "lockstep/harness/explore/shrink/shrinker.h"

namespace lockstep::explore {

/// What shrinking came to.
struct Shrunk {
  TomlNode document;  ///< A whole scenario without variants, its expectation included.
  Trial before;       ///< The failing run that was given.
  Trial after;        ///< The run of `document`, strictly as it stands.
  std::uint64_t n_tries = 0;
};

/// Makes `document`, which fails under `schedule` (empty: its own strategy), smaller: fewer ranks,
/// faults, steps, elements, deviations of the schedule and words, in this order of importance.
///
/// The result is run once more from its text, by itself: it must fail as the given run did,
/// whatever options.same accepted on the way.
///
/// Deterministic: the same arguments give the same result.
/// Errors: the document cannot be read; it does not fail; the result fails differently from the
///     given run.
Result<Shrunk> shrink(const TrialRunner& runner,
                      const TomlNode& document,
                      const std::string& schedule,
                      const ShrinkOptions& options);

}  // namespace lockstep::explore
