// How ranks end: by themselves, killed, or because the world is taken down.
#include <exception>
#include <fmt/core.h>
#include <utility>

#include "lockstep/base/check.h"
#include "lockstep/sim/fiber/detail/scheduler.h"

namespace lockstep::sim {

namespace {

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

}  // namespace

/// Reports the rank's death when an exception passes by.
class Scheduler::DeathNotifier {
 public:
  DeathNotifier(Scheduler& scheduler, const RankSlot& self)
      : scheduler_(&scheduler), self_(&self) {}

  ~DeathNotifier() {
    if (std::uncaught_exceptions() > n_before_) scheduler_->notify_dying(*self_);
  }

  DeathNotifier(const DeathNotifier&) = delete;
  DeathNotifier& operator=(const DeathNotifier&) = delete;
  DeathNotifier(DeathNotifier&&) = delete;
  DeathNotifier& operator=(DeathNotifier&&) = delete;

 private:
  Scheduler* scheduler_;
  const RankSlot* self_;
  int n_before_ = std::uncaught_exceptions();
};

const RankEnd& Scheduler::end_of(Rank rank) const {
  LOCKSTEP_CHECK(slot(rank).state_ == RankState::kEnded,
                 fmt::format("rank {} has not ended", to_int(rank)));
  return result_.ends[to_index(rank)];
}

void Scheduler::finish(RankSlot& slot, RankEnd end) {
  progress_.note();
  progress_.note_end();
  slot.state_ = RankState::kEnded;
  ++n_ended_;
  const bool threw = end.outcome == RankOutcome::kThrew;
  RankEnd& kept = result_.ends[to_index(slot.rank_)];
  kept = std::move(end);
  if (kept.outcome == RankOutcome::kStuck && !result_.livelock)
    kept.detail = describe(slot.reason_);
  if (threw) {
    const std::int32_t rank = to_int(slot.rank_);
    const auto first = result_.first_failure;
    const bool earlier =
        !first || std::pair(kept.time, rank) <
                      std::pair(result_.ends[static_cast<std::size_t>(*first)].time, *first);
    if (earlier) result_.first_failure = rank;
  }
  for (const auto& listener : listeners_.end) listener(slot.rank_);
  if (threw && !options_.keep_going && !deaths_.is_tearing_down()) {
    kill_all(RankOutcome::kKilled,
             "rank " + std::to_string(to_int(slot.rank_)) + " failed: " + kept.detail,
             EndReason::kOtherFailed);
  }
}

void Scheduler::kill_all(RankOutcome outcome, const std::string& reason, EndReason why) {
  if (deaths_.is_tearing_down()) return;
  touch(kEverything);
  deaths_.tear_down(outcome, reason, why);
  for (RankSlot& slot : slots_) {
    if (slot.state_ == RankState::kEnded) continue;
    slot.kill_pending_ = slot.interrupt_pending_ = true;
    if (slot.state_ == RankState::kBlocked || slot.state_ == RankState::kSleeping)
      make_ready(slot, {});
  }
}

void Scheduler::kill(Rank rank, const std::string& reason) {
  RankSlot& victim = slot(rank);
  if (victim.state_ == RankState::kEnded || victim.fenced_) return;
  touch(rank_object(rank));
  victim.kill_pending_ = victim.interrupt_pending_ = true;
  victim.fenced_ = true;
  deaths_.kill(rank, reason);
  if (victim.state_ == RankState::kBlocked || victim.state_ == RankState::kSleeping) {
    make_ready(victim, {});
  }
}

void Scheduler::notify_dying(const RankSlot& self) {
  for (const auto& listener : listeners_.dying) listener(self.rank_);
}

void Scheduler::interrupt(Rank rank, std::function<void(RankHandle&)> handler) {
  RankSlot& victim = slot(rank);
  if (victim.state_ == RankState::kEnded || victim.kill_pending_) return;
  victim.interrupt_pending_ = true;
  interrupts_[rank].push_back(std::move(handler));
}

void Scheduler::run_interrupts(RankSlot& self) {
  self.interrupt_pending_ = false;
  // One that blocks or sleeps comes through here again.
  const auto handlers = std::exchange(interrupts_[self.rank_], {});
  const DeathNotifier death_notifier(*this, self);
  for (const auto& handler : handlers) handler(self);
}

// The program swallows every RankKilled: its stack is abandoned as it is.
void Scheduler::abandon(RankSlot& self) {
  RankEnd end;
  end.outcome = self.fenced_ ? RankOutcome::kKilled : deaths_.outcome();
  end.why = deaths_.why_of(self.rank_);
  end.detail = deaths_.reason_of(self.rank_) + " (it kept catching RankKilled)";
  end.time = self.local_time();
  finish(self, std::move(end));
  for (;;) engine_->suspend();
}

}  // namespace lockstep::sim
