#include "lockstep/sim/fiber/detail/standstill.h"

namespace lockstep::sim {

bool Standstill::ask_outside(bool at_end) {
  if (idle_.empty() || ends_->deaths().is_tearing_down()) return false;
  turns_->actions().note_quiet();
  for (const auto& listener : idle_) {
    listener(at_end);
    if (turns_->actions().any()) return true;
  }
  return false;
}

StuckVerdict Standstill::make_verdict() const {
  StuckVerdict verdict;
  verdict.time = timeline_->now();
  for (const RankSlot& slot : std::as_const(*turns_).slots()) {
    const RankControl& rank = slot.control();
    if (rank.state == RankState::kBlocked) verdict.waiting.push_back({rank.rank, *rank.reason});
  }
  return verdict;
}

bool Standstill::resolve() {
  turns_->actions().note_quiet();
  StuckVerdict verdict = make_verdict();
  if (!verdict_) {
    for (const auto& listener : stuck_) {
      listener(verdict);
      if (turns_->actions().any()) return true;
    }
    verdict_ = std::move(verdict);
  }
  if (progress_->may_wait_for_daemons() && timeline_->advance(true)) {
    progress_->note_daemons();
    return true;
  }
  ends_->kill_all(RankOutcome::kStuck, "stuck");
  return turns_->actions().any();
}

void Standstill::end_as_livelock() {
  StuckVerdict verdict = make_verdict();
  verdict.livelock = true;
  if (!verdict_) {
    for (const auto& listener : stuck_) listener(verdict);
  }
  verdict_ = std::move(verdict);
  ends_->kill_all_as_livelock();
}

void Standstill::drop_listeners() {
  idle_.clear();
  stuck_.clear();
}

}  // namespace lockstep::sim
