#include "lockstep/sim/fiber/detail/scheduler.h"

#include <fmt/core.h>
#include <utility>

#include "lockstep/base/check.h"

namespace lockstep::sim {

namespace {

constexpr const char* kLivelock =
    "livelock: the budget of scheduling points without an event ran out";

// While ranks only poll, time may pass: this many polls a runnable rank, then the next timer fires.
constexpr std::uint64_t kPollsPerRank = 4;
constexpr std::uint64_t kMinPolls = 64;

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
  end_listeners_.clear();
  dying_listeners_.clear();
  idle_listeners_.clear();
  stuck_listeners_.clear();
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
  strategy_ = &strategy;
  const auto n = static_cast<std::size_t>(options.n_ranks);
  slots_ = std::vector<RankSlot>(n);
  result_ = WorldResult{};
  result_.ends.resize(n);
  now_ = {};
  timers_.clear();
  actions_.clear();
  handlers_.clear();
  free_handlers_.clear();
  n_enabled_ = 0;
  n_ended_ = 0;
  action_picked_ = false;
  strategy_broken_ = false;
  n_idle_daemons_ = 0;
  tearing_down_ = false;
  teardown_outcome_ = RankOutcome::kKilled;
  teardown_why_ = EndReason::kNone;
  kill_reasons_.clear();
  interrupts_.clear();
  own_files_.clear();
  own_memo_.clear();
  note_progress();
  strategy.start(options.n_ranks);
  watched_ = strategy.watches();
  for (std::size_t i = 0; i < n; ++i) {
    slots_[i].open(*this, static_cast<Rank>(i));
    make_ready(slots_[i], {});
  }
}

void Scheduler::loop() {
  while (n_ended_ < n_ranks()) {
    if (action_picked_) act();
    if (n_enabled_ == 0 && !ask_outside(false) && !advance(false) && !ask_outside(true) &&
        !resolve_stuck()) {
      continue;
    }
    if (RankSlot* next = choose(); next != nullptr) resume(*next);
  }
}

void Scheduler::act() {
  action_picked_ = false;
  note_progress();
  const ActionTable::Entry entry = actions_.take(picked_);
  try {
    if (entry.handler != nullptr) {
      entry.handler->on_action(entry.action);
      return;
    }
    const std::function<void()> handler =
        std::move(handlers_[static_cast<std::size_t>(entry.timer)]);
    free_handlers_.push_back(entry.timer);
    handler();
  } catch (const std::exception& error) {
    if (!broken_) broken_ = std::current_exception();
    kill_all(RankOutcome::kKilled, error.what());
  }
}

// The strategy's next action: a rank to switch to, or null when the main context must act.
RankSlot* Scheduler::choose() {
  if (n_enabled_ == 0 || action_picked_) return nullptr;
  if (strategy_broken_) return any_ready();
  const ActionId id = strategy_->pick();
  const auto number = static_cast<std::uint64_t>(id);
  if (number < slots_.size() && slots_[number].state_ == RankState::kReady) {
    ++result_.n_choices;
    --n_enabled_;
    return &slots_[number];
  }
  if (actions_.contains(id)) {
    ++result_.n_choices;
    --n_enabled_;
    picked_ = id;
    action_picked_ = true;
    return nullptr;
  }
  strategy_broken_ = true;
  watched_ = false;
  broken_ = std::make_exception_ptr(ContractViolation("strategy " + strategy_->describe() +
                                                      " picked action " + std::to_string(number) +
                                                      ", which is not enabled"));
  kill_all(RankOutcome::kKilled, "the strategy broke its contract");
  return any_ready();
}

// Without a strategy to ask, the world can only be taken down: all ranks left are killed and ready.
RankSlot* Scheduler::any_ready() {
  for (RankSlot& slot : slots_) {
    if (slot.state_ == RankState::kReady) {
      --n_enabled_;
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
  ++n_enabled_;
  strategy_->on_enabled({.id = resume_id(slot.rank_),
                         .kind = ActionKind::kResume,
                         .rank = slot.rank_,
                         .footprint = next.object,
                         .polls = next.kind == PointKind::kWait});
}

void Scheduler::yield(RankSlot& self, const Point& next) {
  if (++n_points_ > options_.livelock_points) return note_livelock();
  n_polls_ = next.kind == PointKind::kWait ? n_polls_ + 1 : 0;
  if (n_polls_ > kMinPolls + kPollsPerRank * n_enabled_ && advance(true)) note_progress();
  if (n_enabled_ == 0) return;
  make_ready(self, next);
  leave(self);
}

void Scheduler::block(RankSlot& self, const WaitReason& reason) {
  note_progress();
  self.reason_ = reason;
  self.state_ = RankState::kBlocked;
  leave(self);
}

void Scheduler::sleep_until(RankSlot& self, VirtualTime time) {
  note_progress();
  ++self.generation_;
  self.reason_ = {.what = "sleep"};
  self.state_ = RankState::kSleeping;
  timers_.push({.time = time, .rank = to_int(self.rank_), .generation = self.generation_});
  leave(self);
}

FileSystem& Scheduler::files_of(Rank rank) {
  const std::size_t index = to_index(rank);
  if (index < options_.files_by_rank.size()) return *options_.files_by_rank[index];
  return options_.files != nullptr ? *options_.files : own_files_;
}

Duration Scheduler::clock_skew_of(Rank rank) const {
  const std::size_t index = to_index(rank);
  return index < options_.clock_skews.size() ? options_.clock_skews[index] : Duration{};
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
  note_progress();
  touch(rank_object(rank));
  make_ready(sleeper, {});
}

void Scheduler::enable(const Action& action, ActionHandler& handler) {
  LOCKSTEP_CHECK(static_cast<std::uint64_t>(action.id) >= slots_.size(),
                 "the ids below the world size are those of resumptions");
  actions_.insert({.action = action, .handler = &handler});
  ++n_enabled_;
  strategy_->on_enabled(action);
}

void Scheduler::disable(ActionId id) {
  LOCKSTEP_CHECK(actions_.contains(id), "only an enabled action can be disabled");
  actions_.take(id);
  --n_enabled_;
  strategy_->on_disabled(id);
}

void Scheduler::note_livelock() {
  result_.livelock = true;
  StuckVerdict verdict = make_verdict();
  verdict.livelock = true;
  if (!result_.stuck) {
    for (const auto& listener : stuck_listeners_) listener(verdict);
  }
  result_.stuck = std::move(verdict);
  kill_all(RankOutcome::kStuck, kLivelock, EndReason::kLivelock);
}

}  // namespace lockstep::sim
