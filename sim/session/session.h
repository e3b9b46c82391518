// One simulated run, whole: world, groups, runtimes, recorders, laws. Below it fibers, above it
// scenarios and the front door.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/rank_context.h"
#include "lockstep/laws/law.h"
#include "lockstep/laws/report.h"
#include "lockstep/sim/fault/agent.h"
#include "lockstep/sim/fault/disks.h"
#include "lockstep/sim/fault/fault.h"
#include "lockstep/sim/group/sim_group.h"
#include "lockstep/sim/strategy/strategies.h"
#include "lockstep/trace/memory_trace.h"

namespace lockstep::sim {

struct SessionOptions {
  std::int32_t n_ranks = 1;
  std::string strategy = "run-to-block";  ///< For make_strategy: a name or a schedule.
  std::uint64_t schedule_seed = 0;        ///< For strategies whose name gives no seed.
  bool timed = false;     ///< Computing costs what `compute` says; links cost what `group` says.
  ComputeSpec compute{};  ///< Timed runs only.
  /// After an exception in a rank the others continue, as processes do; always so where faults
  /// are planned or an agent looks after them.
  bool keep_going = false;
  std::size_t stack_bytes = 0;                 ///< Of each rank; 0: the world's default.
  std::uint64_t livelock_points = 50'000'000;  ///< Scheduling points without an event: a hang.
  GroupOptions group;
  std::vector<Fault> faults{};                ///< What goes wrong, and when. Requires: `record`.
  std::optional<AgentOptions> agent{};        ///< Restarts failed jobs; without one, nothing does.
  DiskScope disk_scope = DiskScope::kShared;  ///< Nodes: GroupOptions::net.
  Disks* disks = nullptr;       ///< The ranks' files, over all attempts; null: those of the run.
  std::uint64_t disk_seed = 0;  ///< Of what crashes leave on the disk.
  /// What a launcher set, sorted by rank. Where there are nodes (GroupOptions::net), LOCAL_RANK and
  /// GROUP_RANK follow, and LOCKSTEP_DISK where each has its own.
  std::vector<RankVariable> environment{};
  std::vector<Duration> clock_skews{};  ///< By rank: how far its clock is ahead; empty: all agree.
  bool exact = false;                   ///< Kernels prove that nothing rounds.
  bool record = true;                   ///< False: no events, no laws (bare speed).
  bool keep_trace = true;             ///< Keep all events in memory; laws and digests work without.
  bool values = false;                ///< Every rank's gradients and parameters, as numbers.
  std::int64_t step_value_bytes = 0;  ///< Rank 0's step values, up to this many bytes.
  std::vector<std::string> laws;      ///< Empty: all trace laws.
  LawPolicy policy;                   ///< n_ranks and exact are filled in.
  std::size_t address_shift = 0;  ///< Shifts heap and stack addresses (promise 1 of determinism).
  /// Called before the ranks of each attempt start, with its world and groups: for bodies that serve
  /// something outside the world (sim/process).
  std::function<void(World&, SimGroups&)> on_world{};
};

struct SessionResult {
  Report report;                       ///< Laws, outcome, digests, wait-for graph.
  std::shared_ptr<MemoryTrace> trace;  ///< Null unless keep_trace.
  std::vector<Attempt> attempts;       ///< First to last; one unless an agent restarted the job.
  WorldResult world;                   ///< Of the last attempt.
  WaitForGraph wait_for;  ///< Outcome "hang": who waits for whom (wait_for.h draws it).
  std::string schedule;   ///< For make_strategy: makes the same schedule again.
};

/// Runs worlds one after another; stacks, pools and name tables are reused.
///
/// Requires: one thread at a time; not inside a rank. Anything else is a ContractViolation.
class Session {
 public:
  Session();
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  Session(Session&&) = delete;
  Session& operator=(Session&&) = delete;

  using Body = std::function<void(RankContext&)>;
  /// Calls `body` once on every rank.
  /// Errors: unknown strategy or law; a schedule that does not fit.
  Result<SessionResult> run(const SessionOptions& options, const Body& body);
  /// The same under the caller's strategy; that of the options is ignored.
  Result<SessionResult> run(const SessionOptions& options, Strategy& strategy, const Body& body);

  /// Of tensors, modules and lists of ranks at the same time, in any run so far: what it keeps for the next one.
  std::int64_t bytes_peak() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
  bool busy_ = false;  ///< Read and written in one step, since another thread may ask.
};

}  // namespace lockstep::sim
