#include "lockstep/sim/fiber/detail/timeline.h"

#include <fmt/core.h>
#include <utility>

#include "lockstep/base/check.h"

namespace lockstep::sim {

void Timeline::start() {
  now_ = {};
  timers_.clear();
}

void Timeline::at(VirtualTime time, std::function<void()> handler, bool daemon) {
  LOCKSTEP_CHECK(time >= now_,
                 fmt::format("a timer at {} ns lies in the past: it is {} ns", time.ns, now_.ns));
  timers_.push(
      {.time = time, .handler = timers_.handlers().keep(std::move(handler)), .daemon = daemon});
}

void Timeline::sleep_until(RankControl& sleeper, VirtualTime time) {
  static constexpr WaitReason kSleep{.what = "sleep"};
  ++sleeper.generation;
  sleeper.reason = &kSleep;
  sleeper.state = RankState::kSleeping;
  timers_.push({.time = time, .rank = to_int(sleeper.rank), .generation = sleeper.generation});
}

bool Timeline::is_stale(const Timers::Timer& timer) const {
  if (timer.rank < 0) return false;
  const RankControl& sleeper = turns_->slots()[static_cast<std::size_t>(timer.rank)].control();
  return sleeper.state != RankState::kSleeping || sleeper.generation != timer.generation;
}

void Timeline::drop_stale() {
  while (!timers_.empty() && is_stale(timers_.next())) timers_.pop();
}

bool Timeline::advance(bool daemons_too) {
  drop_stale();
  if (timers_.empty() || (timers_.only_daemons() && !daemons_too)) return false;
  turns_->actions().note_quiet();
  now_ = timers_.next().time;
  while (!timers_.empty() && timers_.next().time == now_) {
    const Timers::Timer timer = timers_.pop();
    if (!is_stale(timer)) fire(timer);
  }
  return true;
}

void Timeline::fire(const Timers::Timer& timer) {
  if (timer.rank >= 0) {
    turns_->make_ready(turns_->slots()[static_cast<std::size_t>(timer.rank)].control(), {});
    return;
  }
  turns_->actions().enable(ActionTable::Entry{
      .action = {.id = action_id(ActionKind::kTimer, timer.number), .kind = ActionKind::kTimer},
      .timer = timer.handler});
}

}  // namespace lockstep::sim
