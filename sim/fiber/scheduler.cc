#include "lockstep/sim/fiber/detail/scheduler.h"

#include <fmt/core.h>
#include <utility>

#include "lockstep/base/check.h"

namespace lockstep::sim {

namespace {

// Worlds of more ranks than this do not stay in a cache between two turns of a rank.
constexpr std::size_t kCachedRanks = 256;

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
  ends_.drop_listeners();
  standstill_.drop_listeners();
  engine_->destroy();
  if (broken_) std::rethrow_exception(std::exchange(broken_, nullptr));
  return report();
}

void Scheduler::start(const WorldOptions& options, Strategy& strategy) {
  if (engine_ == nullptr || engine_stack_bytes_ != options.stack_bytes) {
    StackOptions stacks;
    stacks.bytes = options.stack_bytes;
    engine_ = make_boost_fiber_engine(stacks);
    engine_stack_bytes_ = options.stack_bytes;
  }
  options_ = options;
  timeline_.start();
  progress_ = {};
  services_.start(options_);
  ends_.start(options_);
  standstill_.start();
  turns_.start(strategy, options.n_ranks);
  for (RankSlot& slot : turns_.slots()) {
    slot.control().scheduler = this;
    turns_.make_ready(slot.control(), {});
  }
}

WorldResult Scheduler::report() {
  WorldResult result;
  ends_.report(result);
  result.stuck = standstill_.take_verdict();
  result.n_choices = turns_.n_choices();
  return result;
}

void Scheduler::loop() {
  while (!ends_.all_ended()) {
    EnabledActions& actions = turns_.actions();
    if (actions.has_taken()) act();
    if (!actions.any() && !standstill_.ask_outside(false) && !timeline_.advance(false) &&
        !standstill_.ask_outside(true) && !standstill_.resolve()) {
      continue;
    }
    if (RankSlot* next = choose(); next != nullptr) resume(*next);
  }
}

void Scheduler::act() {
  progress_.note();
  const ActionTable::Entry entry = turns_.actions().take_out();
  try {
    if (entry.handler != nullptr) {
      entry.handler->on_action(entry.action);
      return;
    }
    timeline_.take_handler(entry.timer)();
  } catch (const std::exception& error) {
    if (!broken_) broken_ = std::current_exception();
    ends_.kill_all(RankOutcome::kKilled, error.what());
  }
}

// A rank to switch to, or null when the main context must act.
RankSlot* Scheduler::choose() {
  RankSlot* const next = turns_.choose();
  return next == nullptr && turns_.has_breach() ? end_all() : next;
}

//   pick:    now    +1    +2    +3    ...   +8
//                               stack       control block
//
// A switch reads a rank's control block, which says where its stack is, and then the stack. Both are
// asked for early enough to have arrived by then, the one that leads to the other first.
void Scheduler::look_ahead() const {
  constexpr std::size_t kFar = 8;
  constexpr std::size_t kNear = 3;
  if (const RankSlot* const later = turns_.expected(kFar)) __builtin_prefetch(later, 1);
  const RankSlot* const soon = turns_.expected(kNear);
  if (soon != nullptr && soon->control().fiber != Engine::kMain) {
    engine_->prefetch(soon->control().fiber);
  }
}

RankSlot* Scheduler::end_all() {
  broken_ = std::make_exception_ptr(ContractViolation(turns_.take_breach()));
  ends_.kill_all(RankOutcome::kKilled, "the strategy broke its contract");
  return turns_.any_ready();
}

void Scheduler::resume(RankSlot& slot) {
  if (turns_.slots().size() > kCachedRanks) look_ahead();
  RankControl& rank = slot.control();
  rank.state = RankState::kRunning;
  if (rank.fiber == Engine::kMain) {
    RankSlot* target = &slot;
    rank.fiber = engine_->create(
        [target](Engine::Fiber) { target->control().scheduler->run_rank(*target); });
    engine_->name(rank.fiber, to_int(rank.rank));
  }
  engine_->resume(rank.fiber);
}

// `self` is ready, blocked or sleeping: another rank's turn, perhaps its own again.
void Scheduler::leave(RankSlot& self) {
  RankSlot* next = choose();
  if (next == &self) {
    self.control().state = RankState::kRunning;
  } else if (next != nullptr) {
    resume(*next);
  } else {
    engine_->suspend();
  }
}

void Scheduler::run_rank(RankSlot& slot) {
  RankEnd end = ends_.run(*program_, slot);
  end.time = slot.local_time();
  ends_.finish(slot, std::move(end));
}

void Scheduler::abandon(RankSlot& self) {
  RankEnd end = ends_.abandoned(self);
  end.time = self.local_time();
  ends_.finish(self, std::move(end));
  for (;;) engine_->suspend();
}

void Scheduler::yield(RankSlot& self, const Point& next) {
  if (!progress_.spend_point(options_.livelock_points)) return standstill_.end_as_livelock();
  const EnabledActions& actions = turns_.actions();
  const bool is_poll = next.kind == PointKind::kWait;
  if (progress_.only_polls(is_poll, actions.n_enabled()) && timeline_.advance(true)) {
    progress_.note();
  }
  if (!actions.any()) return;
  turns_.make_ready(self.control(), next);
  leave(self);
}

void Scheduler::block(RankSlot& self, const WaitReason& reason) {
  progress_.note();
  self.control().reason = &reason;
  self.control().state = RankState::kBlocked;
  leave(self);
}

void Scheduler::sleep_until(RankSlot& self, VirtualTime time) {
  progress_.note();
  timeline_.sleep_until(self.control(), time);
  leave(self);
}

bool Scheduler::wake_blocked(Rank rank) {
  RankControl& sleeper = turns_.slot(rank).control();
  if (sleeper.state != RankState::kBlocked) return false;
  progress_.note();
  turns_.actions().touch(rank_object(rank));
  turns_.make_ready(sleeper, {});
  return true;
}

}  // namespace lockstep::sim
