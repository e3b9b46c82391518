// Who runs next: the state of World.
#pragma once

#include <cstddef>
#include <exception>
#include <memory>

#include "lockstep/sim/engine/engine.h"
#include "lockstep/sim/fiber/detail/ends.h"
#include "lockstep/sim/fiber/detail/progress.h"
#include "lockstep/sim/fiber/detail/rank_services.h"
#include "lockstep/sim/fiber/detail/rank_slot.h"
#include "lockstep/sim/fiber/detail/standstill.h"
#include "lockstep/sim/fiber/detail/timeline.h"
#include "lockstep/sim/fiber/detail/turns.h"
#include "lockstep/sim/fiber/world.h"

namespace lockstep::sim {

/// The scheduler of one world: it switches between ranks. Its parts know whose turn it is, what time
/// it is, how ranks end, and what to do when none can run.
///
/// A rank that stops running asks the strategy itself, on its own stack, and switches straight to
/// the rank that was picked; only actions that are not resumptions, the passage of time and the end
/// of ranks go through the main context (loop). So a scheduling point costs one switch, or none
/// when the strategy picks the same rank again.
class Scheduler {
 public:
  explicit Scheduler(World& world) : world_(&world) {}

  WorldResult run(const WorldOptions& options, Strategy& strategy, const World::Program& program);

  World& world() const { return *world_; }

  const WorldOptions& options() const { return options_; }

  // -- its parts
  Turns& turns() { return turns_; }

  Timeline& timeline() { return timeline_; }

  Ends& ends() { return ends_; }

  Standstill& standstill() { return standstill_; }

  RankServices& services() { return services_; }

  /// False: it is not blocked.
  bool wake_blocked(Rank rank);

  // -- called by ranks, on their stacks
  void yield(RankSlot& self, const Point& next);
  void block(RankSlot& self, const WaitReason& reason);
  void sleep_until(RankSlot& self, VirtualTime time);
  /// Ends a rank that cannot be unwound. Its stack stays as it is.
  [[noreturn]] void abandon(RankSlot& self);

  /// Whether the caller stands on the stack of the rank that runs.
  bool runs_here() const { return engine_->is_here(); }

 private:
  void start(const WorldOptions& options, Strategy& strategy);
  WorldResult report();
  void loop();
  void act();
  RankSlot* choose();
  RankSlot* end_all();
  void look_ahead() const;
  void resume(RankSlot& slot);
  void leave(RankSlot& self);
  void run_rank(RankSlot& slot);

  World* world_;
  std::unique_ptr<Engine> engine_;
  std::size_t engine_stack_bytes_ = 0;

  // One run.
  WorldOptions options_;
  const World::Program* program_ = nullptr;
  Turns turns_;
  Progress progress_;
  Timeline timeline_{turns_};
  Ends ends_{turns_, progress_};
  Standstill standstill_{turns_, timeline_, ends_, progress_};
  RankServices services_;
  std::exception_ptr broken_;  ///< A broken contract of the strategy or a handler: run() throws it.
};

}  // namespace lockstep::sim
