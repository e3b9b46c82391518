// Who runs next: the state of World.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/sim/fiber/detail/deaths.h"
#include "lockstep/sim/fiber/detail/enabled_actions.h"
#include "lockstep/sim/fiber/detail/progress.h"
#include "lockstep/sim/fiber/detail/rank_services.h"
#include "lockstep/sim/fiber/detail/rank_slot.h"
#include "lockstep/sim/fiber/detail/timers.h"
#include "lockstep/sim/fiber/engine.h"
#include "lockstep/sim/fiber/world.h"

namespace lockstep::sim {

/// Who wants to hear of what happens to ranks, in the order of registration.
struct Listeners {
  std::vector<std::function<void(Rank)>> end;
  std::vector<std::function<void(Rank)>> dying;
  std::vector<std::function<void(bool)>> idle;
  std::vector<std::function<void(const StuckVerdict&)>> stuck;
};

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

  void disable(ActionId id) { actions_.disable(id); }

  void touch(std::uint64_t object) { actions_.touch(object); }

  Listeners& listeners() { return listeners_; }

  void note_livelock();

  // -- called by ranks, on their stacks
  void yield(RankSlot& self, const Point& next);
  void block(RankSlot& self, const WaitReason& reason);
  void sleep_until(RankSlot& self, VirtualTime time);
  [[noreturn]] void abandon(RankSlot& self);

  const Deaths& deaths() const { return deaths_; }

  /// Whether the caller stands on the stack of the rank that runs.
  bool runs_here() const { return engine_->is_here(); }

  /// The rank that runs; for messages, since it takes a search.
  std::optional<Rank> running() const;

  const WorldOptions& options() const { return options_; }

  RankServices& services() { return services_; }

  void notify_dying(const RankSlot& self);
  /// Runs what is to interrupt `self`, on its stack.
  void run_interrupts(RankSlot& self);

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

  // -- time
  bool advance(bool daemons_too);
  bool is_stale(const Timers::Timer& timer) const;
  void drop_stale_timers();
  void fire(const Timers::Timer& timer);

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
  const World::Program* program_ = nullptr;
  std::vector<RankSlot> slots_;
  EnabledActions actions_;
  VirtualTime now_;
  Timers timers_;
  Progress progress_;
  Deaths deaths_;
  Interrupts interrupts_;
  RankServices services_;
  Listeners listeners_;
  std::int32_t n_ended_ = 0;
  WorldResult result_;
  std::exception_ptr broken_;  ///< A broken contract of the strategy or a handler: run() throws it.
};

}  // namespace lockstep::sim
