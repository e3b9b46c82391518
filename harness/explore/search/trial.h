// One run of a document: how it fails and how large it is.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/harness/explore/search/coverage.h"
#include "lockstep/harness/explore/search/failure.h"
#include "lockstep/harness/format/document.h"
#include "lockstep/sim/session/warm_session.h"

namespace lockstep::explore {

/// How large a failing run is: the first difference decides. Every step of the shrinker makes it
/// smaller, so it ends.
struct Cost {
  std::int64_t ranks = 0;
  std::int64_t disturbances = 0;  ///< Bugs, faults and overrides.
  std::int64_t events = 0;        ///< That the run recorded.
  std::int64_t volume = 0;        ///< Elements of parameters and of data.
  std::int64_t deviations = 0;    ///< Of the schedule, from the default one.
  std::int64_t leaves = 0;        ///< Values that the document names.
  std::int64_t sum = 0;           ///< Of its integers: the same words with smaller numbers.

  friend auto operator<=>(const Cost&, const Cost&) = default;
};

/// What one run of a document showed.
struct Trial {
  std::optional<Failure> failure;
  std::string sentence;           ///< The failure in the report's words.
  std::vector<std::string> laws;  ///< That fired, in the contract's order.
  Cost cost;
  /// A word that makes the run's schedule again: "@..." or, of a job that an agent restarted, the
  /// name of its strategy.
  std::string schedule;
  std::uint64_t n_choices = 0;    ///< Picks of its last attempt.
  std::uint64_t n_processes = 0;  ///< Under PCT: ranks and other actions.
  std::uint64_t trace_digest = 0;
  std::uint64_t result_digest = 0;
  Coverage coverage;  ///< Of this run.
};

/// Chooses the schedule of a trial.
struct TrialChoices {
  /// Not empty: this one. A schedule is followed as far as it fits, not strictly.
  std::string strategy{};
  /// This many scheduling points without an event end the run, if the document allows more; 0 =
  /// as the document says.
  std::uint64_t livelock_points = 0;
};

/// Runs documents. `path` names them and is where their data files are relative to.
///
/// A trial finds the stacks and pools of the one before warm.
///
/// Requires: one thread at a time, and that of its first trial.
/// Deterministic: a trial is a function of document, path and choices.
class TrialRunner {
 public:
  explicit TrialRunner(std::string path) : path_(std::move(path)) {}

  /// Errors: those of load_scenario, and of a schedule that makes no sense.
  Result<Trial> run(const TomlNode& document, const TrialChoices& choices) const;
  Result<Trial> run(const Scenario& scenario, const TrialChoices& choices) const;
  /// Under a strategy of the caller's; `livelock_points` as in TrialChoices.
  Result<Trial> run(const Scenario& scenario,
                    sim::Strategy& strategy,
                    std::uint64_t livelock_points = 0) const;

  /// A run that may make no sense: nothing for a document that is refused, or over which Lockstep
  /// itself fails, so that an odd try does not end a search for a smaller one.
  std::optional<Trial> attempt(const TomlNode& document, const TrialChoices& choices) const;

  const std::string& path() const { return path_; }

 private:
  mutable sim::WarmSession warm_;
  std::string path_;
};

}  // namespace lockstep::explore
