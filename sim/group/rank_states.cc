#include "lockstep/sim/group/detail/verdict/rank_states.h"

#include <algorithm>
#include <utility>

#include "lockstep/laws/report.h"
#include "lockstep/sim/group/detail/group_registry.h"
#include "lockstep/sim/group/detail/sim_process_group.h"

namespace lockstep::sim {

namespace {

std::string at_site(const CallSite& site) {
  const std::string text = describe(site);
  return text.empty() ? text : " at " + text;
}

}  // namespace

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

void RankStates::make_room() {
  waiting_.resize(static_cast<std::size_t>(registry_->world().n_ranks()));
}

void RankStates::wake_waiter(const SimWork& work) {
  if (waiting_on(work.rank()) == &work) registry_->world().wake_blocked(work.rank());
}

std::vector<std::int32_t> RankStates::missing_for(const SimWork& work) const {
  const GroupState& group = work.group().state();
  if (is_message(work) && work.signature().peer < 0) return {};
  if (is_message(work)) return {group.members[static_cast<std::size_t>(work.signature().peer)]};
  std::vector<std::int32_t> missing;
  const MatchSlot* slot = slot_of(work);
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
bool RankStates::is_cut_off(const MatchSlot& slot, Rank a, Rank b) const {
  if (!slot.cut && slot.flight == nullptr) return false;
  return a != b &&
         !next_up(
             registry_->options().net.outages, to_int(a), to_int(b), registry_->world().now().ns);
}

std::string RankStates::missing_text(const SimWork& work) const {
  constexpr std::size_t kMaxNamed = 4;
  std::vector<std::pair<std::string, std::vector<Rank>>> states;
  for (const std::int32_t rank : missing_for(work)) {
    const std::string state = state_of(rank);
    auto same = std::find_if(
        states.begin(), states.end(), [&](const auto& known) { return known.first == state; });
    if (same == states.end()) {
      if (states.size() == kMaxNamed) continue;
      same = states.insert(states.end(), {state, {}});
    }
    same->second.push_back(Rank{rank});
  }
  std::string text;
  for (const auto& [state, ranks] : states) {
    const bool late = state_in_graph(ranks.front()) == WaitForNode::State::kRunning;
    text += (late ? "; late: " : "; missing: ") + ranks_text(ranks) + ", which " + state;
  }
  return text;
}

std::string RankStates::state_of(std::int32_t rank) const {
  const auto id = static_cast<Rank>(rank);
  const World& world = registry_->world();
  if (world.has_ended(id)) {
    const RankEnd& end = world.end_of(id);
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
  if (world.is_blocked(id)) return "waits for something outside its groups";
  // A rank's end records the latter, and digests of recorded runs cover what it records.
  return livelock_ ? "is spinning without making progress" : "has not come yet";
}

WaitForNode::State RankStates::state_in_graph(Rank rank) const {
  const World& world = registry_->world();
  if (!world.has_ended(rank)) {
    return world.is_blocked(rank) ? WaitForNode::State::kWaits : WaitForNode::State::kRunning;
  }
  const bool finished = world.end_of(rank).outcome == RankOutcome::kFinished;
  return finished ? WaitForNode::State::kEnded : WaitForNode::State::kDied;
}

}  // namespace lockstep::sim
