// The passage of time, and the moment when nothing can happen any more.
#include <fmt/core.h>
#include <utility>

#include "lockstep/base/check.h"
#include "lockstep/sim/fiber/detail/scheduler.h"

namespace lockstep::sim {

void Scheduler::at(VirtualTime time, std::function<void()> handler, bool daemon) {
  LOCKSTEP_CHECK(time >= now_,
                 fmt::format("a timer at {} ns lies in the past: it is {} ns", time.ns, now_.ns));
  timers_.push(
      {.time = time, .handler = timers_.handlers().keep(std::move(handler)), .daemon = daemon});
}

bool Scheduler::is_stale(const Timers::Timer& timer) const {
  if (timer.rank < 0) return false;
  const RankSlot& sleeper = slots_[static_cast<std::size_t>(timer.rank)];
  return sleeper.state_ != RankState::kSleeping || sleeper.generation_ != timer.generation;
}

void Scheduler::drop_stale_timers() {
  while (!timers_.empty() && is_stale(timers_.next())) timers_.pop();
}

// Lets time pass to the next timers and enables all of that moment. False: nothing will ever
// happen.
bool Scheduler::advance(bool daemons_too) {
  drop_stale_timers();
  if (timers_.empty() || (timers_.only_daemons() && !daemons_too)) return false;
  actions_.note_quiet();
  now_ = timers_.next().time;
  while (!timers_.empty() && timers_.next().time == now_) {
    const Timers::Timer timer = timers_.pop();
    if (!is_stale(timer)) fire(timer);
  }
  return true;
}

void Scheduler::fire(const Timers::Timer& timer) {
  if (timer.rank >= 0) {
    make_ready(slots_[static_cast<std::size_t>(timer.rank)], {});
    return;
  }
  actions_.enable(ActionTable::Entry{
      .action = {.id = action_id(ActionKind::kTimer, timer.number), .kind = ActionKind::kTimer},
      .timer = timer.handler});
}

// No rank can run. True: one can again, because of something outside the world.
bool Scheduler::ask_outside(bool at_end) {
  if (listeners_.idle.empty() || deaths_.is_tearing_down()) return false;
  actions_.note_quiet();
  for (const auto& listener : listeners_.idle) {
    listener(at_end);
    if (actions_.any()) return true;
  }
  return false;
}

StuckVerdict Scheduler::make_verdict() const {
  StuckVerdict verdict;
  verdict.time = now_;
  for (const RankSlot& slot : slots_) {
    if (slot.state_ == RankState::kBlocked) verdict.waiting.push_back({slot.rank_, slot.reason_});
  }
  return verdict;
}

// No rank can run. True: one can again (a listener helped, or a watchdog's time has come).
bool Scheduler::resolve_stuck() {
  actions_.note_quiet();
  StuckVerdict verdict = make_verdict();
  if (!result_.stuck) {
    for (const auto& listener : listeners_.stuck) {
      listener(verdict);
      if (actions_.any()) return true;
    }
    result_.stuck = std::move(verdict);
  }
  if (progress_.may_wait_for_daemons() && advance(true)) {
    progress_.note_daemons();
    return true;
  }
  kill_all(RankOutcome::kStuck, "stuck");
  return actions_.any();
}

}  // namespace lockstep::sim
