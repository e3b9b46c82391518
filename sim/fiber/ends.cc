#include "lockstep/sim/fiber/detail/ends.h"

#include <exception>
#include <fmt/core.h>
#include <new>
#include <utility>

#include "lockstep/base/check.h"

namespace lockstep::sim {

namespace {

constexpr const char* kLivelock =
    "livelock: the budget of scheduling points without an event ran out";

std::string describe(const WaitReason& reason) {
  std::string text = "stuck in ";
  text += reason.what;
  if (reason.seq >= 0) text += " #" + std::to_string(reason.seq);
  if (reason.group >= 0) text += " of group " + std::to_string(reason.group);
  if (reason.site.known()) {
    text += " at ";
    text += reason.site.file;
    text += ':' + std::to_string(reason.site.line);
  }
  return text;
}

RankEnd thrown(std::string detail) {
  RankEnd end;
  end.outcome = RankOutcome::kThrew;
  end.detail = std::move(detail);
  end.exception = std::current_exception();
  return end;
}

}  // namespace

/// Reports the rank's death when an exception passes by.
class Ends::DeathNotifier {
 public:
  DeathNotifier(Ends& ends, const RankSlot& self) : ends_(&ends), self_(&self) {}

  ~DeathNotifier() {
    if (std::uncaught_exceptions() > n_before_) ends_->notify_dying(*self_);
  }

  DeathNotifier(const DeathNotifier&) = delete;
  DeathNotifier& operator=(const DeathNotifier&) = delete;
  DeathNotifier(DeathNotifier&&) = delete;
  DeathNotifier& operator=(DeathNotifier&&) = delete;

 private:
  Ends* ends_;
  const RankSlot* self_;
  int n_before_ = std::uncaught_exceptions();
};

void Ends::start(const WorldOptions& options) {
  keep_going_ = options.keep_going;
  deaths_ = {};
  interrupts_.clear();
  ends_.assign(static_cast<std::size_t>(options.n_ranks), RankEnd{});
  first_failure_.reset();
  n_ended_ = 0;
  livelock_ = false;
}

const RankEnd& Ends::of(Rank rank) const {
  LOCKSTEP_CHECK(turns_->slot(rank).control().state == RankState::kEnded,
                 fmt::format("rank {} has not ended", to_int(rank)));
  return ends_[to_index(rank)];
}

// The only place that catches everything, because an exception that leaves a fiber ends the process.
RankEnd Ends::run(const World::Program& program, RankSlot& self) const {
  try {
    self.dying();
    program(self);
    if (self.control().fenced) self.dying();  // It was killed after its last point.
    return {};
  } catch (const RankKilled& killed) {
    RankEnd end;
    end.outcome = deaths_.outcome_of(self.rank());
    end.why = killed.why();
    end.detail = killed.reason();
    return end;
  } catch (const std::bad_alloc&) {  // Its own text names a type.
    return thrown("out of memory");
  } catch (const std::exception& error) {
    return thrown(error.what());
  } catch (...) {  // The rank boundary: property-test libraries throw their own types.
    rethrow_unwinding();
    return thrown("an exception that is not a std::exception");
  }
}

RankEnd Ends::abandoned(const RankSlot& self) const {
  RankEnd end;
  end.outcome = deaths_.outcome_of(self.rank());
  end.why = deaths_.why_of(self.rank());
  end.detail = deaths_.reason_of(self.rank()) + " (it kept catching RankKilled)";
  return end;
}

void Ends::finish(RankSlot& self, RankEnd end) {
  progress_->note();
  progress_->note_end();
  const Rank rank = self.rank();
  self.control().state = RankState::kEnded;
  ++n_ended_;
  const bool threw = end.outcome == RankOutcome::kThrew;
  RankEnd& kept = ends_[to_index(rank)];
  if (end.outcome == RankOutcome::kStuck && !livelock_) end.detail = std::move(kept.detail);
  kept = std::move(end);
  if (threw) note_failure(rank);
  for (const auto& listener : end_) listener(rank);
  if (threw && !keep_going_ && !deaths_.is_tearing_down()) {
    kill_all(RankOutcome::kKilled,
             "rank " + std::to_string(to_int(rank)) + " failed: " + kept.detail,
             EndReason::kOtherFailed);
  }
}

// The first by time, and then by rank.
void Ends::note_failure(Rank rank) {
  const auto when = [this](std::int32_t failed) {
    return std::pair(ends_[static_cast<std::size_t>(failed)].time, failed);
  };
  if (!first_failure_ || when(to_int(rank)) < when(*first_failure_)) first_failure_ = to_int(rank);
}

void Ends::mark_killed(RankControl& victim) {
  victim.kill_pending = victim.interrupt_pending = true;
  if (victim.state == RankState::kBlocked || victim.state == RankState::kSleeping) {
    turns_->make_ready(victim, {});
  }
}

void Ends::kill_all(RankOutcome outcome, const std::string& reason, EndReason why) {
  if (deaths_.is_tearing_down()) return;
  turns_->actions().touch(kEverything);
  deaths_.tear_down(outcome, reason, why);
  const bool stuck = outcome == RankOutcome::kStuck && !livelock_;
  for (RankSlot& slot : turns_->slots()) {
    RankControl& victim = slot.control();
    if (victim.state == RankState::kEnded) continue;
    // What it waits in, as long as that is on its stack: none of them runs, all of them wait.
    if (stuck) ends_[to_index(victim.rank)].detail = describe(*victim.reason);
    mark_killed(victim);
  }
}

void Ends::kill_all_as_livelock() {
  livelock_ = true;
  kill_all(RankOutcome::kStuck, kLivelock, EndReason::kLivelock);
}

void Ends::kill(Rank rank, const std::string& reason) {
  RankControl& victim = turns_->slot(rank).control();
  if (victim.state == RankState::kEnded || victim.fenced) return;
  turns_->actions().touch(rank_object(rank));
  victim.fenced = true;
  deaths_.kill(rank, reason);
  mark_killed(victim);
}

void Ends::notify_dying(const RankSlot& self) {
  for (const auto& listener : dying_) listener(self.rank());
}

void Ends::interrupt(Rank rank, std::function<void(RankHandle&)> handler) {
  RankControl& victim = turns_->slot(rank).control();
  if (victim.state == RankState::kEnded || victim.kill_pending) return;
  victim.interrupt_pending = true;
  interrupts_[rank].push_back(std::move(handler));
}

void Ends::run_interrupts(RankSlot& self) {
  self.control().interrupt_pending = false;
  // One that blocks or sleeps comes through here again.
  const auto handlers = std::exchange(interrupts_[self.rank()], {});
  const DeathNotifier death_notifier(*this, self);
  for (const auto& handler : handlers) handler(self);
}

void Ends::drop_listeners() {
  end_.clear();
  dying_.clear();
}

void Ends::report(WorldResult& result) {
  result.ends = std::move(ends_);
  result.first_failure = first_failure_;
  result.livelock = livelock_;
}

}  // namespace lockstep::sim
