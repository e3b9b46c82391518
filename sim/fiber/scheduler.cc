#include "lockstep/sim/fiber/detail/scheduler.h"

#include <fmt/core.h>
#include <utility>

#include "lockstep/base/check.h"

namespace lockstep::sim {

namespace {

constexpr const char* kLivelock =
    "livelock: the budget of scheduling points without an event ran out";

}  // namespace

WorldResult Scheduler::run(const WorldOptions& options,
                           Strategy& strategy,
                           const World::Program& program) {
  LOCKSTEP_CHECK(!inside_fiber(), "a world inside a rank would mix its ranks with its parent's");
  LOCKSTEP_CHECK(options.n_ranks > 0,
                 fmt::format("a world of {} ranks: it has at least one", options.n_ranks));
  program_ = &program;
  start(options, strategy);
  loop();
  listeners_ = {};
  engine_->destroy();
  if (broken_) std::rethrow_exception(std::exchange(broken_, nullptr));
  return std::move(result_);
}

void Scheduler::start(const WorldOptions& options, Strategy& strategy) {
  if (engine_ == nullptr || engine_stack_bytes_ != options.stack_bytes) {
    StackOptions stacks;
    stacks.bytes = options.stack_bytes;
    engine_ = make_boost_fiber_engine(stacks);
    engine_stack_bytes_ = options.stack_bytes;
  }
  options_ = options;
  const auto n = static_cast<std::size_t>(options.n_ranks);
  slots_ = std::vector<RankSlot>(n);
  result_ = WorldResult{};
  result_.ends.resize(n);
  now_ = {};
  n_ended_ = 0;
  timers_.clear();
  deaths_ = {};
  interrupts_.clear();
  progress_ = {};
  services_.start(options_);
  actions_.start(strategy, options.n_ranks);
  for (std::size_t i = 0; i < n; ++i) {
    slots_[i].open(*this, static_cast<Rank>(i));
    make_ready(slots_[i], {});
  }
}

void Scheduler::loop() {
  while (n_ended_ < n_ranks()) {
    if (actions_.has_taken()) act();
    if (!actions_.any() && !ask_outside(false) && !advance(false) && !ask_outside(true) &&
        !resolve_stuck()) {
      continue;
    }
    if (RankSlot* next = choose(); next != nullptr) resume(*next);
  }
}

void Scheduler::act() {
  progress_.note();
  const ActionTable::Entry entry = actions_.take_out();
  try {
    if (entry.handler != nullptr) {
      entry.handler->on_action(entry.action);
      return;
    }
    timers_.handlers().take(entry.timer)();
  } catch (const std::exception& error) {
    if (!broken_) broken_ = std::current_exception();
    kill_all(RankOutcome::kKilled, error.what());
  }
}

// The strategy's next action: a rank to switch to, or null when the main context must act.
RankSlot* Scheduler::choose() {
  if (!actions_.any() || actions_.has_taken()) return nullptr;
  if (actions_.is_dismissed()) return any_ready();
  const ActionId id = actions_.ask();
  const auto number = static_cast<std::uint64_t>(id);
  if (number < slots_.size() && slots_[number].state_ == RankState::kReady) {
    ++result_.n_choices;
    actions_.take_resumption();
    return &slots_[number];
  }
  if (actions_.take(id)) {
    ++result_.n_choices;
    return nullptr;
  }
  actions_.dismiss();
  broken_ = std::make_exception_ptr(ContractViolation("strategy " + actions_.describe_strategy() +
                                                      " picked action " + std::to_string(number) +
                                                      ", which is not enabled"));
  kill_all(RankOutcome::kKilled, "the strategy broke its contract");
  return any_ready();
}

// Without a strategy to ask, the world can only be taken down: all ranks left are killed and ready.
RankSlot* Scheduler::any_ready() {
  for (RankSlot& slot : slots_) {
    if (slot.state_ == RankState::kReady) {
      actions_.take_resumption();
      return &slot;
    }
  }
  return nullptr;
}

void Scheduler::resume(RankSlot& slot) {
  slot.state_ = RankState::kRunning;
  if (slot.fiber_ == Engine::kMain) {
    RankSlot* target = &slot;
    slot.fiber_ =
        engine_->create([target](Engine::Fiber) { target->scheduler_->run_rank(*target); });
    engine_->name(slot.fiber_, to_int(slot.rank_));
  }
  engine_->resume(slot.fiber_);
}

std::optional<Rank> Scheduler::running() const {
  const auto found = std::find_if(slots_.begin(), slots_.end(), [](const RankSlot& slot) {
    return slot.state_ == RankState::kRunning;
  });
  return found == slots_.end() ? std::nullopt : std::optional(found->rank_);
}

// `self` is ready, blocked or sleeping: another rank's turn, perhaps its own again.
void Scheduler::leave(RankSlot& self) {
  RankSlot* next = choose();
  if (next == &self) {
    self.state_ = RankState::kRunning;
  } else if (next != nullptr) {
    resume(*next);
  } else {
    engine_->suspend();
  }
}

void Scheduler::make_ready(RankSlot& slot, const Point& next) {
  slot.state_ = RankState::kReady;
  actions_.enable(Action{.id = resume_id(slot.rank_),
                         .kind = ActionKind::kResume,
                         .rank = slot.rank_,
                         .footprint = next.object,
                         .polls = next.kind == PointKind::kWait});
}

void Scheduler::yield(RankSlot& self, const Point& next) {
  if (!progress_.spend_point(options_.livelock_points)) return note_livelock();
  const bool is_poll = next.kind == PointKind::kWait;
  if (progress_.only_polls(is_poll, actions_.n_enabled()) && advance(true)) progress_.note();
  if (!actions_.any()) return;
  make_ready(self, next);
  leave(self);
}

void Scheduler::block(RankSlot& self, const WaitReason& reason) {
  progress_.note();
  self.reason_ = reason;
  self.state_ = RankState::kBlocked;
  leave(self);
}

void Scheduler::sleep_until(RankSlot& self, VirtualTime time) {
  progress_.note();
  ++self.generation_;
  self.reason_ = {.what = "sleep"};
  self.state_ = RankState::kSleeping;
  timers_.push({.time = time, .rank = to_int(self.rank_), .generation = self.generation_});
  leave(self);
}

RankSlot& Scheduler::slot(Rank rank) {
  LOCKSTEP_CHECK(
      to_index(rank) < slots_.size(),
      fmt::format("no rank {} in this world: it has {} ranks", to_int(rank), slots_.size()));
  return slots_[to_index(rank)];
}

const RankSlot& Scheduler::slot(Rank rank) const {
  LOCKSTEP_CHECK(
      to_index(rank) < slots_.size(),
      fmt::format("no rank {} in this world: it has {} ranks", to_int(rank), slots_.size()));
  return slots_[to_index(rank)];
}

void Scheduler::wake(Rank rank) {
  RankSlot& sleeper = slot(rank);
  LOCKSTEP_CHECK(
      sleeper.state_ == RankState::kBlocked,
      fmt::format("only a blocked rank can be woken, which rank {} is not", to_int(rank)));
  progress_.note();
  touch(rank_object(rank));
  make_ready(sleeper, {});
}

void Scheduler::enable(const Action& action, ActionHandler& handler) {
  LOCKSTEP_CHECK(static_cast<std::uint64_t>(action.id) >= slots_.size(),
                 "the ids below the world size are those of resumptions");
  actions_.enable(ActionTable::Entry{.action = action, .handler = &handler});
}

void Scheduler::note_livelock() {
  result_.livelock = true;
  StuckVerdict verdict = make_verdict();
  verdict.livelock = true;
  if (!result_.stuck) {
    for (const auto& listener : listeners_.stuck) listener(verdict);
  }
  result_.stuck = std::move(verdict);
  kill_all(RankOutcome::kStuck, kLivelock, EndReason::kLivelock);
}

}  // namespace lockstep::sim
