// A scenario run: in the simulator with its companion runs, as one rank of a real run, or judged
// from a trace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/harness/scenario/scenario.h"
#include "lockstep/laws/report.h"
#include "lockstep/laws/trace_check.h"
#include "lockstep/sim/session/session.h"
#include "lockstep/train/rank_program.h"

namespace lockstep {

/// What running a scenario gives.
struct ScenarioResult {
  Report report;
  sim::SessionResult session;
  std::vector<RankOutcomeValues> ranks;
  double seconds = 0.0;  ///< Filled by the command line, not by the run.
};

/// How far a run is: what rank 0 has done of its job.
struct RunProgress {
  std::int64_t steps = 0;                ///< Optimizer steps done.
  std::optional<std::int64_t> of_steps;  ///< Of these; absent when the job counts epochs.
  std::int64_t epoch = 0;                ///< In progress, from 0.
  std::int64_t of_epochs = 1;
};

/// What a report says beyond what the run itself shows.
struct ReportChoices {
  std::string replay{};             ///< Repeats the run. Empty: what the scenario says.
  std::string replay_of_failure{};  ///< Not empty: the same, of a run that is not ok.
  bool first_divergence = false;    ///< Where what the ranks share begins to differ, if it does.
};

/// What the caller of one run decides, beside what the scenario says.
struct RunChoices {
  std::optional<std::uint64_t> schedule_seed;  ///< Also selects the random strategy.
  std::string schedule;               ///< Not empty: this strategy, whatever the scenario says.
  sim::Strategy* strategy = nullptr;  ///< Not null: picks in this run, whatever the others say.
  /// Not 0: no more scheduling points without an event than these, if the scenario allows more.
  std::uint64_t livelock_points = 0;
  bool values = false;
  /// Where ranks differ, runs once more to say in which element, and by how much (place_values.h).
  /// Not with a strategy of the caller's, which may not pick the same again.
  bool explain = false;
  std::size_t address_shift = 0;
  /// Runs the world and its companions, warm from what it ran before. Null: one of the call's own.
  /// Requires: no run in progress; this thread's.
  sim::Session* session = nullptr;
  /// Called after each of rank 0's steps, where the scenario has a job. Does not change the run.
  std::function<void(const RunProgress&)> progress;
  ReportChoices report{};
};

/// Runs it, companion runs of relation laws included.
Result<ScenarioResult> run_scenario(const Scenario& scenario, const RunChoices& choices);

/// What rank `context.rank()` does in it, on any backend. `more` acts after the scenario's own
/// bugs.
RankOutcomeValues run_rank(const Scenario& scenario,
                           RankContext& context,
                           LoopHook* more = nullptr);

/// How much of rank 0's step values the relation laws want recorded, 0 = nothing.
std::int64_t step_value_bytes(const Scenario& scenario);

/// The report of a run of the scenario whose events are in `loaded`: all laws, as run_scenario.
Result<ScenarioResult> judge_scenario(const Scenario& scenario,
                                      const LoadedTrace& loaded,
                                      const ReportChoices& choices = {});

}  // namespace lockstep
