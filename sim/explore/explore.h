// Many schedules of one program: which ends are there, and the first that fails.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/sim/session/session.h"
#include "lockstep/sim/strategy/exhaustive.h"

namespace lockstep::sim {

/// Which schedules to try, of which world.
struct ExploreOptions {
  SessionOptions session;            ///< Its strategy and seed are ignored.
  std::string strategy = "random";   ///< "random" | "pct[:depth=3]" | "uniform" | "exhaustive"
  std::uint64_t first_seed = 0;      ///< Schedule k has the seed first_seed + k.
  std::uint64_t n_schedules = 1000;  ///< At most this many run.
  bool stop_at_failure = true;
};

/// What one run came to.
struct Judgement {
  std::string failure;          ///< Empty: as it should be.
  std::uint64_t end_state = 0;  ///< Equal for runs that ended the same way.
};

/// Reads a run's end. The default: a report that is not ok fails, the result digest is the state.
using Judge = std::function<Judgement(const SessionResult&)>;
Judgement judge_by_report(const SessionResult& result);

/// One way in which runs ended.
struct EndState {
  std::uint64_t digest = 0;
  std::uint64_t n_schedules = 0;
  std::string schedule;  ///< The first that ended so, for make_strategy.
};

/// The schedule that failed, and how.
struct FailedSchedule {
  std::uint64_t number = 0;  ///< 1-based index of the schedule.
  std::string what;
  std::string schedule;  ///< For make_strategy: fails again, also in another process.
};

/// What all schedules have come to.
struct Exploration {
  std::uint64_t n_schedules = 0;          ///< Runs made, redundant ones included.
  ExhaustiveCounts exhaustive;            ///< Of strategy "exhaustive".
  bool complete = false;                  ///< "exhaustive" has nothing left to run.
  std::vector<EndState> ends;             ///< In the order of first appearance.
  std::optional<FailedSchedule> failure;  ///< The first.
  std::uint64_t n_processes = 0;          ///< "pct": the most a run had, ranks and other actions.
  std::uint64_t n_steps = 0;              ///< "pct": the most picks a run had.
  double bound = 0.0;  ///< "pct": pct_bound of these, the chance of one run to hit a bug.

  bool depends_on_schedule() const { return ends.size() > 1; }

  /// Nothing failed and all schedules ended the same way: evidence for those that ran, and a proof
  /// only if `complete`.
  bool ok() const { return !failure && !depends_on_schedule(); }
};

/// Runs `body` under one schedule after another.
///
/// "pct" makes one run first, to learn how many steps there are; "uniform" two, to learn how long the
/// ranks are.
///
/// Requires: as Exhaustive, for that strategy.
/// Deterministic: the result is a function of program and options.
/// Errors: unknown strategy or law.
Result<Exploration> explore(const ExploreOptions& options,
                            const Session::Body& body,
                            const Judge& judge = judge_by_report);

}  // namespace lockstep::sim
