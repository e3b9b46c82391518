// The moment when no rank can run: who is asked for help, and the verdict if none comes.
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/sim/fiber/detail/ends.h"
#include "lockstep/sim/fiber/detail/progress.h"
#include "lockstep/sim/fiber/detail/timeline.h"
#include "lockstep/sim/fiber/detail/turns.h"
#include "lockstep/sim/fiber/world.h"

namespace lockstep::sim {

class Standstill {
 public:
  Standstill(Turns& turns, Timeline& timeline, Ends& ends, Progress& progress)
      : turns_(&turns), timeline_(&timeline), ends_(&ends), progress_(&progress) {}

  /// A new world, without a verdict. Listeners stay.
  void start() { verdict_.reset(); }

  /// Asks for what happens outside the world. True: something can happen again.
  bool ask_outside(bool at_end);

  /// Nothing can happen, and no time is left. True: something can happen again (a listener helped,
  /// a watchdog's time has come, or ranks are to unwind).
  bool resolve();

  /// Ranks run and make no progress: the verdict says so and all of them are killed.
  void end_as_livelock();

  // -- listeners, in the order of registration
  void on_idle(std::function<void(bool)> listener) { idle_.push_back(std::move(listener)); }

  void on_stuck(std::function<void(const StuckVerdict&)> listener) {
    stuck_.push_back(std::move(listener));
  }

  void drop_listeners();

  /// The last verdict that nothing averted.
  std::optional<StuckVerdict> take_verdict() { return std::exchange(verdict_, std::nullopt); }

 private:
  StuckVerdict make_verdict() const;

  Turns* turns_;
  Timeline* timeline_;
  Ends* ends_;
  Progress* progress_;
  std::optional<StuckVerdict> verdict_;
  std::vector<std::function<void(bool)>> idle_;
  std::vector<std::function<void(const StuckVerdict&)>> stuck_;
};

}  // namespace lockstep::sim
