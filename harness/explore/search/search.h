// Many runs of one scenario: other schedules, other seeds of the job, until one fails.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/harness/explore/parts/shard.h"
#include "lockstep/harness/explore/search/trial.h"
#include "lockstep/harness/format/load.h"
#include "lockstep/sim/strategy/exhaustive.h"

namespace lockstep::explore {

/// One way to run the scenario: changes of the file and a schedule.
struct Attempt {
  std::vector<Setting> settings;  ///< After those of the command line.
  std::string schedule;           ///< A strategy with its seed, or a schedule; empty: its own.
};

struct SearchOptions {
  std::string variant{};
  std::vector<Setting> settings{};
  /// "random" | "pct[:depth=3][,steps=400]" | "uniform" | "exhaustive"
  std::string strategy = "random";
  std::uint64_t n_runs = 1000;   ///< At most this many.
  std::uint64_t n_seeds = 1;     ///< Seeds of the job; the first one is the scenario's.
  bool vary = false;             ///< Also small changes of the scenario, alternating with it.
  std::uint64_t n_jobs = 1;      ///< Worlds at once, on a thread each; exhaustive: one.
  std::vector<Attempt> first{};  ///< Runs to make before all others.
  /// Called between runs, on the calling thread.
  std::function<void(std::uint64_t done, std::uint64_t most)> progress{};
};

/// The first run that failed.
struct FoundFailure {
  std::uint64_t number = 0;  ///< 1-based index of the run.
  bool was_kept = false;     ///< One of SearchOptions::first.
  Attempt attempt;           ///< Repeats it.
  Trial trial;
};

/// Two runs of the same inputs that ended differently without breaking a law.
struct DivergingRuns {
  std::vector<Setting> settings;
  std::string schedule;  ///< Of one of them, and
  std::string other;     ///< of another; empty: the scenario's own strategy.
};

struct SearchResult {
  std::uint64_t n_runs = 0;     ///< Up to the failure, it included.
  std::uint64_t n_ends = 0;     ///< Distinct end states.
  std::uint64_t n_seeds = 1;    ///< Seeds of the job, and
  std::uint64_t n_changes = 0;  ///< small changes of the scenario that took turns.
  std::optional<FoundFailure> failure;
  /// Of a scenario without faults, which may end differently.
  std::optional<DivergingRuns> diverging_runs;
  Coverage coverage;      ///< What these runs reached.
  bool complete = false;  ///< "exhaustive" has nothing left to run.
  sim::ExhaustiveCounts exhaustive;
  bool timed = false;             ///< The clock decides more than the strategy.
  std::uint64_t n_processes = 0;  ///< "pct": the most a run had.
  std::uint64_t n_steps = 0;      ///< "pct": the most picks a run had.
  /// "pct": the chance of one run to hit a bug of its depth. 0: none is promised, since a run was
  /// longer than the strategy's `steps`.
  double bound = 0.0;

  /// All schedules there are have run, for these inputs, and nothing failed.
  bool proof() const { return complete && !failure && !diverging_runs && !timed; }
};

/// What one run showed, as far as a search goes by it. A search that is split over processes is made
/// of these.
struct MadeRun {
  /// Its place in the search, from 0: those of SearchOptions::first, then all others.
  std::uint64_t number = 0;
  bool was_made = true;   ///< False: a kept failure that the file cannot have any more.
  std::size_t input = 0;  ///< Which of the scenario's seeds and changes; 0: it is a kept one.
  std::string schedule;   ///< Makes its schedule again; empty: the scenario's own.
  std::uint64_t end = 0;  ///< Digest of the state that it ended in.
  std::uint64_t n_choices = 0;
  std::uint64_t n_processes = 0;
  std::string failure;   ///< The failure's sentence; empty: it did not fail.
  ActionCounts actions;  ///< Beside those of `reached`, which many runs have in common.
  std::shared_ptr<const Coverage> reached;
};

/// Runs the scenario in the file at `path`: first as it is, then as `options` say. Ends with the
/// first failure.
///
/// Deterministic: the result is a function of file and options, whatever n_jobs and the machine.
/// Errors: those of load_scenario; an unknown strategy.
Result<SearchResult> search(const std::string& path, const SearchOptions& options);

/// The runs of `search` that are the shard's, by their numbers, up to the first that fails.
///
/// Deterministic: a function of file, options and shard, whatever n_jobs and the machine.
/// Errors: those of `search`; a strategy whose runs depend on what earlier ones showed.
Result<std::vector<MadeRun>> make_runs(const std::string& path,
                                       const SearchOptions& options,
                                       const Shard& shard);

/// What `search` returns, from the runs of all shards in the order of their numbers. The run that
/// failed is made once more.
/// Errors: those of `search`; a run is missing, is not one of this scenario, or its failure does
///     not come again.
Result<SearchResult> put_together(const std::string& path,
                                  const SearchOptions& options,
                                  const std::vector<MadeRun>& runs);

/// The failure of one of the runs of make_runs, made once more. Its number is that of the run, plus 1.
/// Errors: as put_together.
Result<FoundFailure> failure_again(const std::string& path,
                                   const SearchOptions& options,
                                   const MadeRun& run);

/// A result that depends on the schedule as a failure of law deterministic: the run that compares
/// the two schedules, to be made smaller and kept like any other.
/// Errors: those of load_scenario. Nothing: the law does not see it, so it cannot be made smaller.
Result<std::optional<FoundFailure>> as_failure(const std::string& path,
                                               const SearchOptions& options,
                                               const DivergingRuns& ends);

}  // namespace lockstep::explore
