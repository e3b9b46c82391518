// The passage of time: what happens later, and the moment that has come.
#pragma once

#include <cstdint>
#include <functional>

#include "lockstep/sim/fiber/detail/timers.h"
#include "lockstep/sim/fiber/detail/turns.h"

namespace lockstep::sim {

class Timeline {
 public:
  explicit Timeline(Turns& turns) : turns_(&turns) {}

  /// A new world, at time 0.
  void start();

  VirtualTime now() const { return now_; }

  /// Offers an action at `time` that calls `handler`. Requires: not before now().
  void at(VirtualTime time, std::function<void()> handler, bool daemon);

  /// The rank is ready again at `time`, unless something else wakes it before.
  void sleep_until(RankControl& sleeper, VirtualTime time);

  /// Lets time pass to the next timers and enables all of that moment. False: nothing will ever
  /// happen.
  bool advance(bool daemons_too);

  /// What the timer of an action that was chosen calls.
  std::function<void()> take_handler(std::int32_t timer) { return timers_.handlers().take(timer); }

 private:
  bool is_stale(const Timers::Timer& timer) const;
  void drop_stale();
  void fire(const Timers::Timer& timer);

  Turns* turns_;
  VirtualTime now_;
  Timers timers_;
};

}  // namespace lockstep::sim
