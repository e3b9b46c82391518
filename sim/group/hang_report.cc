#include "lockstep/sim/group/detail/verdict/hang_report.h"

#include <algorithm>
#include <fmt/core.h>
#include <set>

#include "lockstep/laws/report.h"
#include "lockstep/sim/group/detail/group_registry.h"
#include "lockstep/sim/group/detail/sim_process_group.h"
#include "lockstep/trace/detail/first_pairing.h"

namespace lockstep::sim {

namespace {

bool died(const World& world, std::int32_t rank) {
  if (!world.has_ended(static_cast<Rank>(rank))) return false;
  const RankOutcome outcome = world.end_of(static_cast<Rank>(rank)).outcome;
  return outcome == RankOutcome::kThrew || outcome == RankOutcome::kKilled;
}

}  // namespace

// What is waited for, each collective once: 100,000 ranks in one all-reduce are one question, not
// 100,000 that look at 100,000 members.
std::vector<SimWork*> HangReport::one_per_slot(const StuckVerdict& verdict) const {
  std::vector<SimWork*> works;
  std::set<const MatchSlot*> seen;
  for (const StuckVerdict::Waiting& waiting : verdict.waiting) {
    SimWork* work = registry_->ranks().waiting_on(waiting.rank);
    if (work == nullptr || work->done()) continue;
    const MatchSlot* slot = slot_of(*work);
    if (slot == nullptr || seen.insert(slot).second) works.push_back(work);
  }
  return works;
}

void HangReport::on_stuck(const StuckVerdict& verdict) {
  if (verdict.livelock || !fail_calls_to_lost_peers(verdict)) end_stuck(verdict);
}

bool HangReport::fail_calls_to_lost_peers(const StuckVerdict& verdict) {
  const RankStates& ranks = registry_->ranks();
  bool any = false;
  for (SimWork* work : one_per_slot(verdict)) {
    for (const std::int32_t rank : ranks.missing_for(*work)) {
      if (!died(registry_->world(), rank)) continue;
      registry_->fail(*work,
                      CommStatus::kPeerLost,
                      registry_->keep(fmt::format("rank {} {}", rank, ranks.state_of(rank))));
      any = true;
      break;
    }
  }
  return any;
}

void HangReport::end_stuck(const StuckVerdict& verdict) {
  RankStates& ranks = registry_->ranks();
  ranks.set_livelock(verdict.livelock);
  wait_for_ = draw_wait_for(*registry_, verdict);
  explanation_ = render_text(wait_for_) + cycle_text(verdict) + losses_text() + mispaired_text();
  std::set<Rank> missing;
  const std::vector<SimWork*> works = one_per_slot(verdict);
  for (const SimWork* work : works) {
    for (const std::int32_t rank : ranks.missing_for(*work))
      missing.insert(static_cast<Rank>(rank));
  }
  missing_.assign(missing.begin(), missing.end());
  // Who is watched over is not left to the verdict: the watchdog comes, and says so.
  if (!verdict.livelock && registry_->watchdog().is_watching()) return;
  for (SimWork* work : works) {
    if (!work->done()) end_stuck(*work);
  }
}

// Recorded as stuck, but no rank is woken: the world takes the ranks down.
void HangReport::end_stuck(SimWork& work) {
  RankStates& ranks = registry_->ranks();
  ranks.set_waiting(work.rank(), nullptr);
  if (work.partner != nullptr) ranks.set_waiting(work.partner->rank(), nullptr);
  if (const MatchSlot* slot = slot_of(work)) {
    for (const SimWork* member : slot->works) {
      if (member != nullptr) ranks.set_waiting(member->rank(), nullptr);
    }
    for (const SimWork* lost : registry_->faults().lost()) ranks.set_waiting(lost->rank(), nullptr);
  }
  registry_->fail(work, CommStatus::kStuck, nullptr);
}

// Follows the lowest missing rank that waits itself until one comes twice.
std::string HangReport::cycle_text(const StuckVerdict& verdict) const {
  if (verdict.waiting.empty()) return {};
  const RankStates& ranks = registry_->ranks();
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
    const SimWork* work = ranks.waiting_on(static_cast<Rank>(rank));
    if (work == nullptr || work->done() || work->lost) return {};
    const std::vector<std::int32_t> missing = ranks.missing_for(*work);
    const auto next = std::find_if(missing.begin(), missing.end(), [this](std::int32_t r) {
      return registry_->world().is_blocked(static_cast<Rank>(r));
    });
    if (next == missing.end()) return {};
    rank = *next;
  }
}

std::string HangReport::losses_text() const {
  std::string text;
  for (const SimWork* work : registry_->faults().lost()) {
    text += "lost: the contribution of rank " + std::to_string(to_int(work->rank())) + " to " +
            describe_call(*work) + "\n";
  }
  for (const Outage& outage : registry_->options().net.outages) {
    std::vector<Rank> ranks;
    std::vector<Rank> peers;
    for (const std::int32_t rank : outage.ranks) ranks.push_back(Rank{rank});
    for (const std::int32_t rank : outage.peers) peers.push_back(Rank{rank});
    if (outage.next_up(registry_->world().now().ns)) continue;
    text += "link down: no message passes between " + ranks_text(ranks) + " and " +
            (peers.empty() ? "the others" : ranks_text(peers)) + "\n";
  }
  return text;
}

std::string HangReport::mispaired_text() const {
  std::string text;
  for (const auto& [id, group] : registry_->groups().all()) {
    if (!group->mispaired.empty()) {
      text += fmt::format("{}{}: {}\n", kFirstPairing, id, group->mispaired);
    }
  }
  return text;
}

}  // namespace lockstep::sim
