// Real processes as the virtual ranks of one run: the same groups, verdicts, faults and schedules
// that judge fibers judge them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/enum_names.h"
#include "lockstep/base/error.h"
#include "lockstep/laws/report.h"
#include "lockstep/sim/group/sim_group.h"
#include "lockstep/sim/process/outside.h"
#include "lockstep/sim/process/rank_process.h"
#include "lockstep/sim/process/store_table.h"

namespace lockstep::sim {

struct CoordinatorOptions {
  std::vector<ProcessHandles>
      processes{};  ///< By rank, at least one. Their sockets are taken over.
  /// One process computes at a time, and the strategy decides which. False: in rounds, all at once
  /// (outside.h).
  bool serial = false;
  std::string strategy = "run-to-block";  ///< For make_strategy: a name or a schedule.
  std::uint64_t seed = 0;                 ///< For strategies whose name gives no seed.
  GroupOptions group{};
  /// Timeouts of calls and of the store pass in virtual time. False: only where a request says so; a
  /// verdict comes in their place.
  bool expires = false;
  std::vector<std::string> faults{};  ///< call_fault.h
  StoreTable::Contents store{};       ///< At the start.
  /// How often in a row ranks sleep or ask whether something is over, while none does anything else
  /// and none is asleep outside, before it is a livelock.
  std::int64_t most_naps = 20'000;
  OutsideLimits outside{};
  bool take_signals = false;  ///< SIGINT and SIGTERM end the run. Requires: one such run at a time.
};

enum class CoordinationOutcome : std::uint8_t {
  kOk,           ///< Every process ended with exit code 0.
  kFailed,       ///< At least one did not.
  kDeadlock,     ///< At some moment none could go on.
  kLivelock,     ///< They only slept and asked, forever.
  kInterrupted,  ///< By a signal to the coordinator.
};

struct RankEnding {
  RankOutcome outcome = RankOutcome::kFinished;
  ProcessExit exit{};
  bool stopped = false;  ///< By the coordinator: after a verdict, a fault or an interrupt.
  std::string text{};    ///< Of its exception, or why it was killed, or what it waited for.
  VirtualTime time;
  std::string stack{};  ///< At the verdict, as the process shows it; empty: it was not asked.
};

struct Coordination {
  CoordinationOutcome outcome = CoordinationOutcome::kOk;
  std::vector<RankEnding> ends;               ///< By rank.
  std::optional<std::int32_t> first_failure;  ///< By itself, not because another had failed.
  int signal = 0;                             ///< kInterrupted
  std::string error;                          ///< kFailed: "rank 1: ..."
  std::string wait_for;                       ///< Who waits for whom at the verdict.
  WaitForGraph wait_for_graph;
  std::vector<Rank> missing;
  std::string schedule;  ///< For `strategy`: makes the same schedule again.
  std::string token;     ///< The same as deviations from the default, however long.
  StoreTable::Contents store;
  std::vector<std::string> struck;  ///< Faults that happened.
  std::vector<std::string> notes;
  Report report;  ///< Laws on the calls.
  std::vector<LogLine> log;
  VirtualTime time;  ///< At the end.
  std::uint64_t n_requests = 0;
};

/// Serves the processes until all have ended; ends and reaps them whatever happens.
///
/// Deterministic: a process is a function of the answers it gets and of nothing else (no clock, no
///     file that another writes, no thread of its own that talks here) ⇒ the run is a function of
///     options and programs: results, order of requests, virtual times and verdict. Where a process
///     had to be left alone because it slept outside, a note says so.
/// Errors: unknown strategy or fault, an order that does not fit; a schedule that does not fit.
Result<Coordination> coordinate(CoordinatorOptions options);

}  // namespace lockstep::sim

namespace lockstep {

template <>
inline constexpr EnumNames<5> kEnumNames<sim::CoordinationOutcome> = {
    "ok", "failed", "deadlock", "livelock", "interrupted"};

}  // namespace lockstep
