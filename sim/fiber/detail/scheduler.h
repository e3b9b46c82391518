// Who runs next: the state of World.
#pragma once

#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/sim/fiber/detail/action_table.h"
#include "lockstep/sim/fiber/detail/rank_slot.h"
#include "lockstep/sim/fiber/detail/timers.h"
#include "lockstep/sim/fiber/engine.h"
#include "lockstep/sim/fiber/memory_files.h"
#include "lockstep/sim/fiber/world.h"

namespace lockstep::sim {

/// The scheduler of one world.
///
/// A rank that stops running asks the strategy itself, on its own stack, and switches straight to
/// the rank that was picked; only actions that are not resumptions, the passage of time and the end
/// of ranks go through the main context (loop). So a scheduling point costs one switch, or none
/// when the strategy picks the same rank again.
class Scheduler {
 public:
  explicit Scheduler(World& world) : world_(&world) {}

  WorldResult run(const WorldOptions& options, Strategy& strategy, const World::Program& program);

  // -- World's interface
  World& world() const { return *world_; }

  VirtualTime now() const { return now_; }

  std::int32_t n_ranks() const { return static_cast<std::int32_t>(slots_.size()); }

  RankSlot& slot(Rank rank);

  RankState state_of(Rank rank) const { return slot(rank).state_; }

  const RankSlot& slot(Rank rank) const;
  const RankEnd& end_of(Rank rank) const;
  void wake(Rank rank);
  void at(VirtualTime time, std::function<void()> handler, bool daemon);
  void kill(Rank rank, const std::string& reason);
  void interrupt(Rank rank, std::function<void(RankHandle&)> handler);
  void enable(const Action& action, ActionHandler& handler);
  void disable(ActionId id);

  void touch(std::uint64_t object) {
    if (watched_) strategy_->on_touch(object);
  }

  void on_rank_end(std::function<void(Rank)> listener) {
    end_listeners_.push_back(std::move(listener));
  }

  void on_rank_dying(std::function<void(Rank)> listener) {
    dying_listeners_.push_back(std::move(listener));
  }

  void on_idle(std::function<void(bool)> listener) {
    idle_listeners_.push_back(std::move(listener));
  }

  void note_livelock();

  void on_stuck(std::function<void(const StuckVerdict&)> listener) {
    stuck_listeners_.push_back(std::move(listener));
  }

  // -- called by ranks, on their stacks
  void yield(RankSlot& self, const Point& next);
  void block(RankSlot& self, const WaitReason& reason);
  void sleep_until(RankSlot& self, VirtualTime time);
  [[noreturn]] void abandon(RankSlot& self);
  const std::string& kill_reason_of(Rank rank) const;
  EndReason why_of(Rank rank) const;

  /// Whether the caller stands on the stack of the rank that runs.
  bool runs_here() const { return engine_->is_here(); }

  /// The rank that runs; for messages, since it takes a search.
  std::optional<Rank> running() const;

  const WorldOptions& options() const { return options_; }

  FileSystem& files_of(Rank rank);
  Duration clock_skew_of(Rank rank) const;
  void notify_dying(const RankSlot& self);
  /// Runs what is to interrupt `self`, on its stack.
  void run_interrupts(RankSlot& self);

  Memo& memo() { return options_.memo != nullptr ? *options_.memo : own_memo_; }

 private:
  class DeathNotifier;

  void start(const WorldOptions& options, Strategy& strategy);
  void loop();
  void act();
  RankSlot* choose();
  RankSlot* any_ready();
  void resume(RankSlot& slot);
  void leave(RankSlot& self);
  void make_ready(RankSlot& slot, const Point& next);

  void note_quiet() {
    if (watched_) strategy_->on_quiet();
  }

  void note_progress() { n_points_ = n_polls_ = 0; }

  // -- time
  bool advance(bool daemons_too);
  bool is_stale(const Timers::Timer& timer) const;
  void drop_stale_timers();
  void fire(const Timers::Timer& timer);
  std::int32_t keep_handler(std::function<void()> handler);

  // -- ends
  void run_rank(RankSlot& slot);
  RankEnd run_program(RankSlot& slot);
  void finish(RankSlot& slot, RankEnd end);
  void kill_all(RankOutcome outcome, const std::string& reason, EndReason why = EndReason::kNone);
  bool resolve_stuck();
  StuckVerdict make_verdict() const;
  bool ask_outside(bool at_end);

  World* world_;
  std::unique_ptr<Engine> engine_;
  std::size_t engine_stack_bytes_ = 0;

  // One run.
  WorldOptions options_;
  Strategy* strategy_ = nullptr;
  const World::Program* program_ = nullptr;
  std::vector<RankSlot> slots_;
  WorldResult result_;
  VirtualTime now_;
  Timers timers_;
  ActionTable actions_;
  std::vector<std::function<void()>> handlers_;
  std::vector<std::int32_t> free_handlers_;
  std::size_t n_enabled_ = 0;
  std::int32_t n_ended_ = 0;
  bool action_picked_ = false;  ///< picked_ waits for the main context.
  ActionId picked_{};
  std::uint64_t n_points_ = 0;       ///< Points since a rank blocked, woke, ended or acted.
  std::uint64_t n_polls_ = 0;        ///< Of these, polls in a row.
  std::int32_t n_idle_daemons_ = 0;  ///< Daemon timers since the verdict that changed nothing.
  bool tearing_down_ = false;
  RankOutcome teardown_outcome_ = RankOutcome::kKilled;
  std::string teardown_reason_;
  EndReason teardown_why_ = EndReason::kNone;
  std::map<Rank, std::string> kill_reasons_;
  std::map<Rank, std::vector<std::function<void(RankHandle&)>>> interrupts_;
  bool watched_ = false;          ///< The strategy wants to know what actions touch.
  bool strategy_broken_ = false;  ///< It is not asked again.
  std::exception_ptr broken_;  ///< A broken contract of the strategy or a handler: run() throws it.

  std::vector<std::function<void(Rank)>> end_listeners_;
  std::vector<std::function<void(Rank)>> dying_listeners_;
  std::vector<std::function<void(bool)>> idle_listeners_;
  std::vector<std::function<void(const StuckVerdict&)>> stuck_listeners_;
  MemoryFiles own_files_;
  MemoryMemo own_memo_;
};

}  // namespace lockstep::sim
