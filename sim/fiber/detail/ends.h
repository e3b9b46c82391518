// How ranks end: by themselves, killed, or because the world is taken down.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/sim/fiber/detail/deaths.h"
#include "lockstep/sim/fiber/detail/progress.h"
#include "lockstep/sim/fiber/detail/turns.h"
#include "lockstep/sim/fiber/world.h"

namespace lockstep::sim {

class Ends {
 public:
  Ends(Turns& turns, Progress& progress) : turns_(&turns), progress_(&progress) {}

  /// A new world, in which all ranks live. Listeners stay.
  void start(const WorldOptions& options);

  bool all_ended() const { return n_ended_ == turns_->n_ranks(); }

  /// Requires: it has ended.
  const RankEnd& of(Rank rank) const;

  const Deaths& deaths() const { return deaths_; }

  // -- a rank's own end
  /// Runs the program on the rank's stack to its end. No exception crosses it but what takes the
  /// fiber itself down. The time of the end is the caller's to fill in.
  RankEnd run(const World::Program& program, RankSlot& self) const;

  /// The end of a rank that swallows every RankKilled: its stack is abandoned as it is.
  RankEnd abandoned(const RankSlot& self) const;

  /// The rank has ended. Unless the others are to continue, an exception kills them.
  void finish(RankSlot& self, RankEnd end);

  // -- against their will
  /// Does nothing to a rank that has ended or was killed before.
  void kill(Rank rank, const std::string& reason);
  /// Only the first call counts.
  void kill_all(RankOutcome outcome, const std::string& reason, EndReason why = EndReason::kNone);
  /// The same where ranks run and make no progress: what they wait for means nothing.
  void kill_all_as_livelock();

  /// Runs `handler` at the rank's next point, on its stack.
  void interrupt(Rank rank, std::function<void(RankHandle&)> handler);
  void run_interrupts(RankSlot& self);
  /// An exception from outside is about to unwind the rank.
  void notify_dying(const RankSlot& self);

  // -- listeners, in the order of registration
  void on_end(std::function<void(Rank)> listener) { end_.push_back(std::move(listener)); }

  void on_dying(std::function<void(Rank)> listener) { dying_.push_back(std::move(listener)); }

  void drop_listeners();

  /// Moves what it knows into `result`.
  void report(WorldResult& result);

 private:
  class DeathNotifier;

  /// It wakes up to die, or dies at its next point.
  void mark_killed(RankControl& victim);
  void note_failure(Rank rank);

  Turns* turns_;
  Progress* progress_;
  bool keep_going_ = false;
  Deaths deaths_;
  Interrupts interrupts_;
  std::vector<RankEnd> ends_;
  std::optional<std::int32_t> first_failure_;
  std::int32_t n_ended_ = 0;
  bool livelock_ = false;
  std::vector<std::function<void(Rank)>> end_;
  std::vector<std::function<void(Rank)>> dying_;
};

}  // namespace lockstep::sim
