// N virtual ranks as fibers on one thread: who runs, when time moves, when all are stuck.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/call_site.h"
#include "lockstep/base/host.h"
#include "lockstep/sim/fiber/action.h"

namespace lockstep::sim {

class Scheduler;  // detail/scheduler.h
class World;

/// What a blocked rank waits for, kept for the verdict.
struct WaitReason {
  std::string_view what;  ///< "all_reduce", "recv", "sleep", ... (a literal)
  std::int32_t group = -1;
  std::int64_t seq = -1;
  CallSite site{};
};

/// How one rank's program ended.
enum class RankOutcome : std::uint8_t { kFinished, kThrew, kKilled, kStuck };

struct RankEnd {
  RankOutcome outcome = RankOutcome::kFinished;
  EndReason why = EndReason::kNone;
  std::string detail;  ///< what() of the exception, reason of the kill, what it waited for.
  std::exception_ptr exception;  ///< kThrew: to rethrow at the front door.
  VirtualTime time;
};

/// Proof that no rank can run: made at that moment, without any timeout.
struct StuckVerdict {
  struct Waiting {
    Rank rank{};
    WaitReason reason;
  };

  VirtualTime time;
  std::vector<Waiting> waiting;  ///< By rank.
  bool livelock = false;         ///< The others could run, and do, but make no progress.
};

struct WorldResult {
  std::vector<RankEnd> ends;  ///< By rank.
  std::optional<StuckVerdict> stuck;
  std::optional<std::int32_t> first_failure;  ///< Rank of the first exception by (time, rank).
  std::uint64_t n_choices = 0;                ///< Actions picked.
  bool livelock = false;  ///< The budget of points ran out; all ranks were stopped.
};

/// An environment variable of one rank.
struct RankVariable {
  std::int32_t rank = 0;
  std::string name;
  std::string value;
};

struct WorldOptions {
  std::int32_t n_ranks = 1;
  bool timed = false;       ///< Compute and links cost virtual time; otherwise everything is free.
  bool keep_going = false;  ///< After an exception in a rank the others continue, as processes do.
  std::size_t stack_bytes = std::size_t{64} * 1024;
  std::uint64_t livelock_points = 50'000'000;  ///< Points without an event before giving up.
  /// What Host::environment returns, in addition to RANK, LOCAL_RANK and WORLD_SIZE.
  std::vector<std::pair<std::string, std::string>> environment{};
  /// The same for one rank; goes first. Requires: sorted by rank.
  std::vector<RankVariable> rank_environment{};
  /// Shared by all ranks; null: an empty one in memory, kept by the run.
  FileSystem* files = nullptr;
  /// Each rank's own view of the files, by rank (nodes with their own disks, faults); empty:
  /// `files` for all.
  std::vector<FileSystem*> files_by_rank{};
  Memo* memo = nullptr;                 ///< Null: one of the run.
  std::vector<Duration> clock_skews{};  ///< By rank: how far its clock is ahead; empty: all agree.
  /// Receives what ranks log, in the order of the schedule; empty: dropped.
  std::function<void(Rank, VirtualTime, std::string_view)> log{};
};

/// One rank's side of the world: suspend, resume, time. Given to the rank's function.
class RankHandle : public Host {
 public:
  virtual Rank rank() const = 0;
  virtual World& world() const = 0;
  /// Suspends this rank until World::wake is called on it. Spurious wake-ups do not happen.
  /// Throws RankKilled when the rank was killed or the world is being taken down meanwhile.
  ///
  /// Returns: whether it was suspended. False: interrupts ran instead, which take time, so what it
  ///     waits for may have happened: check again.
  virtual bool block(const WaitReason& reason) = 0;
};

/// Does the work of actions that are not resumptions, on the scheduler's stack.
class ActionHandler {
 public:
  virtual ~ActionHandler() = default;
  /// The strategy picked `action`. May wake ranks and enable actions; must not block.
  virtual void on_action(const Action& action) = 0;
};

/// A reusable simulator of ranks: stacks and arenas are kept between runs.
///
/// Requires: one thread at a time; never used inside a rank (a world in a world mixes their fibers:
///     ContractViolation).
/// Deterministic: a run is a function of the program, the options and the strategy's picks. Time is
///     monotone; among actions of equal time the strategy chooses.
/// Errors: an exception in a rank ends that rank (and, unless `keep_going`, asks the others to
///     unwind at their next point); it never crosses a fiber. No rank runnable and no timer left =
///     a StuckVerdict, after which blocked ranks unwind with RankKilled. A strategy that picks an
///     action which is not enabled ends the run with a ContractViolation.
class World {
 public:
  World();
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  World(World&&) = delete;
  World& operator=(World&&) = delete;

  using Program = std::function<void(RankHandle&)>;
  WorldResult run(const WorldOptions& options, Strategy& strategy, const Program& program);

  // -- for the rooms that build on fibers (groups, links, faults); called from ranks or handlers
  VirtualTime now() const;
  std::int32_t n_ranks() const;
  /// A rank's side of the world, for those that are given another side of it. Requires: it runs.
  RankHandle& handle(Rank rank);
  /// Makes a blocked rank runnable again. Requires: it is blocked.
  void wake(Rank rank);
  /// The same for a rank that may do something else. Returns: whether it was blocked.
  bool wake_blocked(Rank rank);
  bool is_blocked(Rank rank) const;
  /// The program of `rank` has ended (in any way).
  bool has_ended(Rank rank) const;
  /// How it ended. Requires: has_ended(rank).
  const RankEnd& end_of(Rank rank) const;
  /// Offers an action to the strategy; `handler` does it when picked. Requires: the id is free.
  void enable(const Action& action, ActionHandler& handler);
  /// Takes it back. Requires: enabled and not picked yet.
  void disable(ActionId id);
  /// Informs a strategy that compares schedules of what the rank or handler that runs now shares
  /// with others, in addition to what its point or action announced. Handlers owe it the memory of
  /// every rank they read, write or complete work for: rank_object(rank).
  void touch(std::uint64_t object);
  /// Calls `handler` at `at` (>= now) on the scheduler's stack: links and faults live here, not in
  /// fibers. A daemon timer does not keep a stuck world alive (watchdogs, heartbeats).
  void at(VirtualTime at, std::function<void()> handler, bool daemon = false);
  /// Kills a rank: sticky RankKilled at its next point; a blocked rank wakes up to die.
  void kill(Rank rank, const std::string& reason);
  /// Runs `handler` at the rank's next point, on the rank's own stack, where it may throw (the rank
  /// fails there), block (it hangs) or sleep (it is late). A blocked rank gets it once it resumes.
  void interrupt(Rank rank, std::function<void(RankHandle&)> handler);
  /// Those that run make no progress, and a room above knows: the run ends as a livelock.
  void end_as_livelock();
  // -- listeners serve one run: register before it or inside it, they are dropped at its end
  /// Called on the rank's own stack when an exception from outside is about to unwind it: what
  /// others may still read of its memory must be read now.
  void on_rank_dying(std::function<void(Rank)> listener);
  /// Called when a rank has ended: groups turn it into verdicts and lost peers.
  void on_rank_end(std::function<void(Rank)> listener);
  /// Called on the main stack whenever no rank can run, in the order of registration, until one
  /// wakes a rank or enables an action: ranks may wait for something outside the world, which the
  /// listener waits for. First before time passes; again, with `at_end`, where no time is left that
  /// could pass, before a verdict.
  void on_idle(std::function<void(bool at_end)> listener);
  /// Called when no rank can run, before ranks are taken down, in the order of registration, until
  /// one wakes a rank or enables an action: then the run continues and no verdict is kept. Also
  /// called for a livelock, which no answer averts.
  void on_stuck(std::function<void(const StuckVerdict&)> listener);

 private:
  std::unique_ptr<Scheduler> scheduler_;
};

}  // namespace lockstep::sim
