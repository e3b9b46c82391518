// When no rank can run: calls to lost peers fail, and a deadlock is explained.
#include <algorithm>
#include <set>

#include "lockstep/sim/group/detail/group_registry.h"
#include "lockstep/sim/group/detail/pairing.h"
#include "lockstep/sim/group/detail/sim_process_group.h"
#include "lockstep/sim/group/detail/verdict_words.h"
#include "lockstep/trace/detail/first_pairing.h"

namespace lockstep::sim {

namespace {

bool died(const World& world, std::int32_t rank) {
  if (!world.has_ended(static_cast<Rank>(rank))) return false;
  const RankOutcome outcome = world.end_of(static_cast<Rank>(rank)).outcome;
  return outcome == RankOutcome::kThrew || outcome == RankOutcome::kKilled;
}

std::string at_site(const CallSite& site) {
  const std::string text = describe(site);
  return text.empty() ? text : " at " + text;
}

}  // namespace

bool is_message(const SimWork& work) {
  return work.signature().op == CollectiveOp::kSend || work.signature().op == CollectiveOp::kRecv;
}

std::string describe_call(const SimWork& work) {
  const Signature& signature = work.signature();
  std::string text(name_of(signature.op));
  const GroupState& group = work.group().state();
  text += " #" + std::to_string(work.seq()) + " of group " +
          (group.name.empty() ? std::to_string(group.id) : "'" + group.name + "'");
  if (signature.op != CollectiveOp::kBarrier) {
    text += " (" + std::to_string(signature.count) + " x " + std::string(name_of(signature.dtype)) +
            ")";
  }
  if (work.from_any_source()) text += " from any rank";
  if (is_message(work)) text += " tag " + std::to_string(signature.tag);
  return text + at_site(signature.site);
}

// World ranks that have not posted their side of `work`.
std::vector<std::int32_t> GroupRegistry::missing_for(const SimWork& work) const {
  const GroupState& group = work.group().state();
  if (is_message(work) && work.signature().peer < 0) return {};
  if (is_message(work)) return {group.members[static_cast<std::size_t>(work.signature().peer)]};
  std::vector<std::int32_t> missing;
  const MatchSlot* slot = find_slot(group, work.seq());
  if (slot == nullptr) return missing;
  for (std::size_t m = 0; m < slot->works.size(); ++m) {
    const SimWork* other = slot->works[m];
    if (slot->has_result(m)) continue;
    const bool absent = other == nullptr ||
                        (slot->hung && !same_signature(other->signature(), work.signature())) ||
                        is_cut_off(*slot, work.rank(), Rank{group.members[m]});
    if (absent) missing.push_back(group.members[m]);
  }
  std::sort(missing.begin(), missing.end());
  return missing;
}

// Both have called, but nothing passes between them any more.
bool GroupRegistry::is_cut_off(const MatchSlot& slot, Rank a, Rank b) const {
  if (!slot.cut && slot.flight == nullptr) return false;
  return a != b && !next_up(options_.net.outages, to_int(a), to_int(b), world_->now().ns);
}

// What is waited for, each collective once: 100,000 ranks in one all-reduce are one question, not
// 100,000 that look at 100,000 members.
std::vector<SimWork*> GroupRegistry::one_per_slot(const StuckVerdict& verdict) const {
  std::vector<SimWork*> works;
  std::set<const MatchSlot*> seen;
  for (const StuckVerdict::Waiting& waiting : verdict.waiting) {
    SimWork* work = waiting_on(waiting.rank);
    if (work == nullptr || work->done()) continue;
    const bool message = is_message(*work);
    const MatchSlot* slot = message ? nullptr : find_slot(work->group().state(), work->seq());
    if (message || seen.insert(slot).second) works.push_back(work);
  }
  return works;
}

void GroupRegistry::on_stuck(const StuckVerdict& verdict) {
  if (verdict.livelock || !fail_calls_to_lost_peers(verdict)) end_stuck(verdict);
}

// Members of a dead rank learn of it only here: exactly when nothing else can happen any more.
bool GroupRegistry::fail_calls_to_lost_peers(const StuckVerdict& verdict) {
  bool any = false;
  for (SimWork* work : one_per_slot(verdict)) {
    for (const std::int32_t rank : missing_for(*work)) {
      if (!died(*world_, rank)) continue;
      const std::string* detail = keep("rank " + std::to_string(rank) + " " + state_of(rank));
      if (is_message(*work)) {
        fail_message(*work, CommStatus::kPeerLost, detail);
      } else {
        MatchSlot& slot = *find_slot(work->group().state(), work->seq());
        fail(slot, CommStatus::kPeerLost, detail);
      }
      any = true;
      break;
    }
  }
  return any;
}

void GroupRegistry::end_stuck(const StuckVerdict& verdict) {
  livelock_ = verdict.livelock;
  write_explanation(verdict);
  std::set<Rank> missing;
  const std::vector<SimWork*> works = one_per_slot(verdict);
  for (const SimWork* work : works) {
    for (const std::int32_t rank : missing_for(*work)) missing.insert(static_cast<Rank>(rank));
  }
  missing_.assign(missing.begin(), missing.end());
  // Who is watched over is not left to the verdict: the watchdog comes, and says so.
  if (!livelock_ && awaits_timeout()) return;
  for (SimWork* work : works) {
    if (!work->done()) end_stuck(*work);
  }
}

void GroupRegistry::write_explanation(const StuckVerdict& verdict) {
  draw(verdict);
  explanation_ = render_text(wait_for_) + cycle_text(verdict) + losses_text();
  for (const auto& [id, group] : groups_) {
    if (group->mispaired.empty()) continue;
    explanation_ +=
        std::string(kFirstPairing) + std::to_string(id) + ": " + group->mispaired + "\n";
  }
}

// Recorded as stuck, but no rank is woken: the world takes the ranks down.
void GroupRegistry::end_stuck(SimWork& work) {
  waiting_[to_index(work.rank())] = nullptr;
  if (work.partner != nullptr) waiting_[to_index(work.partner->rank())] = nullptr;
  if (is_message(work)) return fail_message(work, CommStatus::kStuck, nullptr);
  MatchSlot& slot = *find_slot(work.group().state(), work.seq());
  for (const SimWork* member : slot.works) {
    if (member != nullptr) waiting_[to_index(member->rank())] = nullptr;
  }
  for (const SimWork* lost : lost_) waiting_[to_index(lost->rank())] = nullptr;
  fail(slot, CommStatus::kStuck, nullptr);
}

std::string GroupRegistry::state_of(std::int32_t rank) const {
  const auto id = static_cast<Rank>(rank);
  if (world_->has_ended(id)) {
    const RankEnd& end = world_->end_of(id);
    switch (end.outcome) {
      case RankOutcome::kFinished:
        return "ended normally";
      case RankOutcome::kThrew:
        return "threw: " + end.detail;
      case RankOutcome::kKilled:
        return "was killed: " + end.detail;
      case RankOutcome::kStuck:
        return end.detail;
    }
  }
  const SimWork* work = waiting_on(id);
  if (work != nullptr && !work->done() && work->lost) {
    return "called it, but its contribution was lost";
  }
  if (work != nullptr && !work->done()) return "waits in " + describe_call(*work);
  if (world_->is_blocked(id)) return "waits for something outside its groups";
  // A rank's end records the latter, and digests of recorded runs cover what it records.
  return livelock_ ? "is spinning without making progress" : "has not come yet";
}

// Follows the lowest missing rank that waits itself until one comes twice.
std::string GroupRegistry::cycle_text(const StuckVerdict& verdict) const {
  if (verdict.waiting.empty()) return {};
  std::vector<std::int32_t> path;
  std::int32_t rank = to_int(verdict.waiting.front().rank);
  for (;;) {
    const auto seen = std::find(path.begin(), path.end(), rank);
    if (seen != path.end()) {
      std::string text = "cycle:";
      for (auto at = seen; at != path.end(); ++at) text += " rank " + std::to_string(*at) + " ->";
      return text + " rank " + std::to_string(rank) + "\n";
    }
    path.push_back(rank);
    const SimWork* work = waiting_on(static_cast<Rank>(rank));
    if (work == nullptr || work->done() || work->lost) return {};
    const std::vector<std::int32_t> missing = missing_for(*work);
    const auto next = std::find_if(missing.begin(), missing.end(), [this](std::int32_t r) {
      return world_->is_blocked(static_cast<Rank>(r));
    });
    if (next == missing.end()) return {};
    rank = *next;
  }
}

}  // namespace lockstep::sim
