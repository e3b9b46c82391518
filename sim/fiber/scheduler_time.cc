// The passage of time, and the moment when nothing can happen any more.
#include <fmt/core.h>
#include <utility>

#include "lockstep/base/check.h"
#include "lockstep/sim/fiber/detail/scheduler.h"

namespace lockstep::sim {

namespace {

// After the verdict, watchdogs may still restart something; a heartbeat that re-arms itself must
// not keep a dead world alive.
constexpr std::int32_t kMaxIdleDaemons = 1000;

}  // namespace

void Scheduler::at(VirtualTime time, std::function<void()> handler, bool daemon) {
  LOCKSTEP_CHECK(time >= now_,
                 fmt::format("a timer at {} ns lies in the past: it is {} ns", time.ns, now_.ns));
  timers_.push({.time = time, .handler = keep_handler(std::move(handler)), .daemon = daemon});
}

std::int32_t Scheduler::keep_handler(std::function<void()> handler) {
  if (free_handlers_.empty()) {
    handlers_.push_back(std::move(handler));
    return static_cast<std::int32_t>(handlers_.size()) - 1;
  }
  const std::int32_t index = free_handlers_.back();
  free_handlers_.pop_back();
  handlers_[static_cast<std::size_t>(index)] = std::move(handler);
  return index;
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
  note_quiet();
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
  const Action action{.id = action_id(ActionKind::kTimer, timer.number),
                      .kind = ActionKind::kTimer};
  actions_.insert({.action = action, .timer = timer.handler});
  ++n_enabled_;
  strategy_->on_enabled(action);
}

// No rank can run. True: one can again, because of something outside the world.
bool Scheduler::ask_outside(bool at_end) {
  if (idle_listeners_.empty() || tearing_down_) return false;
  note_quiet();
  for (const auto& listener : idle_listeners_) {
    listener(at_end);
    if (n_enabled_ > 0) return true;
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
  note_quiet();
  StuckVerdict verdict = make_verdict();
  if (!result_.stuck) {
    for (const auto& listener : stuck_listeners_) {
      listener(verdict);
      if (n_enabled_ > 0) return true;
    }
    result_.stuck = std::move(verdict);
  }
  if (n_idle_daemons_ < kMaxIdleDaemons && advance(true)) {
    ++n_idle_daemons_;
    return true;
  }
  kill_all(RankOutcome::kStuck, "stuck");
  return n_enabled_ > 0;
}

}  // namespace lockstep::sim
