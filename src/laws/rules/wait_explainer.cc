#include "lockstep/laws/rules/detail/ends/wait_explainer.h"

#include <algorithm>
#include <set>

#include "lockstep/base/check.h"
#include "lockstep/base/text.h"

namespace lockstep::laws {

namespace {

std::string call_text(const Signature& signature) {
  const std::string site = signature.site.text();
  return std::string(name_of(signature.op)) + (site.empty() ? "" : " (" + site + ")");
}

std::string last_seen(const RankLife& life) {
  if (!life.last_kind) return "";
  // Recorders that know calls alone do not know steps.
  if (life.last_opt < 0) return ", its last call was " + call_text(life.last_call);
  const std::string event = *life.last_kind == EventKind::kStep
                                ? std::string("optimizer.step")
                                : std::string(name_of(*life.last_kind));
  return ", last event: " + event + " of step " + std::to_string(life.last_opt);
}

constexpr std::size_t kMostListed = 3;
constexpr const char* kEvaluatesAlone =
    "; rank 0 evaluates through the wrapper here, and the other ranks do not";

bool alike(const Signature& a, const Signature& b) {
  return a.op == b.op && a.reduce == b.reduce && a.dtype == b.dtype && a.count == b.count &&
         a.root == b.root;
}

}  // namespace

Finding WaitExplainer::waiting_in(const Channel& channel, std::int64_t seq) const {
  Finding finding;
  finding.event = "collective";
  finding.attempt = end_->attempt();
  finding.group = channel.group;
  finding.seq = seq;
  finding.missing = end_->missing(channel, seq);
  const OpenCall* call = nullptr;
  bool gave_up = false;
  for (const auto& [rank, life] : end_->lives()) {
    const OpenCall* open = life.find(channel, seq);
    if (open == nullptr || !end_->is_stuck(life, *open)) continue;
    finding.ranks.push_back(Rank{rank});
    gave_up = gave_up || open->timed_out;
    if (call == nullptr) call = open;
  }
  LOCKSTEP_CHECK(call != nullptr, "a rank waits in this call");
  finding.site = call->signature.site.text();
  if (call->opt >= 0) finding.step = call->opt;
  finding.message =
      (gave_up ? "timed out in " : "blocked forever in ") + call_text(call->signature);
  const std::string others =
      finding.missing.empty() ? other_calls(channel, *call) : absences(finding.missing);
  finding.message += ": " + others;
  if (const std::string dropped = forwards_->dropped_text(end_->attempt()); !dropped.empty()) {
    finding.message += "; " + dropped;
  }
  if (const std::string windows = forwards_->window_text(end_->attempt()); !windows.empty()) {
    finding.message += "; the ranks accumulate differently: " + windows;
  }
  finding.cause = cause(finding, channel);
  if (finding.cause == Cause::kRank0OnlyCollective) finding.message += kEvaluatesAlone;
  return finding;
}

std::string WaitExplainer::other_calls(const Channel& channel, const OpenCall& call) const {
  std::vector<std::string> others;
  for (const auto& [rank, life] : end_->lives()) {
    const OpenCall* const own = life.find(channel, call.seq);
    if (own == nullptr || alike(own->signature, call.signature)) continue;
    others.push_back("rank " + std::to_string(rank) + " is in " + call_text(own->signature) +
                     " instead");
    if (others.size() == kMostListed) break;
  }
  return others.empty() ? "all members posted it, but it never completed" : join(others, "; ");
}

std::string WaitExplainer::absences(std::span<const Rank> missing) const {
  std::string text;
  for (const Rank rank : missing.first(std::min(kMostListed, missing.size()))) {
    text += (text.empty() ? "" : "; ") + absence(rank);
  }
  return text;
}

std::string WaitExplainer::absence(Rank rank) const {
  const std::string who = "rank " + std::to_string(to_int(rank)) + " ";
  const auto known = end_->lives().find(to_int(rank));
  if (known == end_->lives().end()) return who + "recorded nothing";
  const RankLife& life = known->second;
  const std::string last = last_seen(life);
  if (life.is_spinning()) return who + "is spinning without making progress" + last;
  if (life.outcome == EndOutcome::kOk) return who + "exited before making this call" + last;
  if (end_->is_dead(life)) {
    const std::string how = life.outcome == EndOutcome::kException ? "raised an exception" : "died";
    return who + how + (life.detail.empty() ? "" : " (" + life.detail + ")") + last;
  }
  if (!life.open.empty()) return who + "is blocked in " + call_text(life.open.front().signature);
  std::string note = life.detail;
  if (note == name_of(life.outcome)) note.clear();
  return who + "never made this call" + (note.empty() ? "" : " (" + note + ")") + last;
}

Cause WaitExplainer::cause(const Finding& finding, const Channel& channel) const {
  const bool one_died =
      std::any_of(finding.missing.begin(), finding.missing.end(), [this](Rank rank) {
        const auto life = end_->lives().find(to_int(rank));
        return life != end_->lives().end() && end_->is_dead(life->second) &&
               !life->second.was_ended();
      });
  if (gave_up(finding, channel) && all_were_on_their_way(finding, channel)) {
    return Cause::kSlowRank0Timeout;
  }
  if (one_died) return Cause::kRankCrash;
  if (end_->all_posted(channel, *finding.seq)) return cause_of_lost(finding, channel);
  for (const Rank rank : finding.missing) {
    const Cause why = cause_of_absence(rank, finding, channel);
    if (why != Cause::kNone) return why;
  }
  return Cause::kNone;
}

bool WaitExplainer::gave_up(const Finding& finding, const Channel& channel) const {
  return std::ranges::any_of(finding.ranks, [&](Rank rank) {
    return end_->lives().at(to_int(rank)).find(channel, *finding.seq)->timed_out;
  });
}

/// Ranks that had not made the call and were asked to end, which their traces show: one that had crashed before leaves no
/// such word, and closes its connections, so that nothing waits for a deadline.
bool WaitExplainer::all_were_on_their_way(const Finding& finding, const Channel& channel) const {
  return !finding.missing.empty() && std::ranges::all_of(finding.missing, [&](Rank rank) {
    const auto known = end_->lives().find(to_int(rank));
    return known != end_->lives().end() && known->second.outcome == EndOutcome::kKilled &&
           known->second.find(channel, *finding.seq) == nullptr;
  });
}

Cause WaitExplainer::cause_of_absence(Rank rank,
                                      const Finding& finding,
                                      const Channel& channel) const {
  const auto known = end_->lives().find(to_int(rank));
  if (known == end_->lives().end() || end_->is_dead(known->second)) return Cause::kRankCrash;
  if (channel.source >= 0)
    return rank == Rank{channel.source} ? Cause::kMissingSend : Cause::kMissingRecv;
  const RankLife& life = known->second;
  const RankLife& waiting = end_->lives().at(to_int(finding.ranks.front()));
  if (life.is_spinning()) return Cause::kLivelock;
  // It neither ended nor waits in a call.
  const bool frozen = life.open.empty() && waiting.n_forwards > 0;
  if (life.outcome != EndOutcome::kOk) return frozen ? Cause::kFrozenDevice : Cause::kNone;
  return cause_of_early_end(rank, finding, channel);
}

/// What is called there of buffers is called before the forward is recorded.
bool WaitExplainer::evaluates_alone(Rank rank,
                                    const Finding& finding,
                                    const Channel& channel) const {
  const RankLife& life = end_->lives().at(to_int(rank));
  const RankLife& waiting = end_->lives().at(to_int(finding.ranks.front()));
  const OpenCall* const call = waiting.find(channel, *finding.seq);
  const bool of_a_wrapper = call != nullptr && call->signature.op == CollectiveOp::kBroadcast &&
                            *call->signature.site.scope != '\0';
  return of_a_wrapper && finding.ranks == std::vector<Rank>{Rank{0}} && waiting.is_evaluating &&
         !life.is_evaluating;
}

Cause WaitExplainer::cause_of_early_end(Rank rank,
                                        const Finding& finding,
                                        const Channel& channel) const {
  const RankLife& life = end_->lives().at(to_int(rank));
  const Rank waiter = finding.ranks.front();
  const RankLife& waiting = end_->lives().at(to_int(waiter));
  const Cause other_way = forwards_->difference(end_->attempt());
  if (other_way != Cause::kNone || waiting.n_forwards == 0) return other_way;
  const OpenCall* call = waiting.find(channel, *finding.seq);
  if (evaluates_alone(rank, finding, channel)) return Cause::kRank0OnlyCollective;
  const bool in_forward = call != nullptr && call->signature.op == CollectiveOp::kBroadcast;
  if (life.n_forwards < waiting.n_forwards || in_forward) return Cause::kUnevenBatches;
  // The same number of forwards, and one reduction fewer. Loops without a wrapper reduce what they like.
  if (forwards_->n_synchronizing(to_int(waiter), end_->attempt()) == 0) return Cause::kNone;
  const bool as_many = forwards_->n_synchronizing(to_int(rank), end_->attempt()) >=
                       forwards_->n_synchronizing(to_int(waiter), end_->attempt());
  return as_many ? Cause::kBranchNoGraph : Cause::kNone;
}

/// Once another had given up; or, where times do not show it, one that has not waited as long.
bool WaitExplainer::one_came_late(const std::vector<const OpenCall*>& calls) {
  if (!std::ranges::all_of(calls, &OpenCall::timed_out)) return true;
  const auto first = std::ranges::min_element(calls, {}, &OpenCall::gave_up);
  return std::ranges::any_of(
      calls, [&](const OpenCall* call) { return call->posted >= (*first)->gave_up; });
}

Cause WaitExplainer::cause_of_lost(const Finding& finding, const Channel& channel) const {
  std::vector<const OpenCall*> calls;
  for (const auto& [rank, life] : end_->lives()) {
    const OpenCall* open = life.find(channel, *finding.seq);
    if (open == nullptr) continue;
    calls.push_back(open);
    if (!alike(open->signature, calls.front()->signature)) return Cause::kNone;  // Law 6 names it.
  }
  // A rank that gave up was released by a watchdog: over a late rank, or over a silent link.
  if (std::ranges::any_of(calls, &OpenCall::timed_out)) {
    if (!finding.missing.empty()) return Cause::kLinkFlap;
    if (one_came_late(calls)) return Cause::kSlowRank0Timeout;
  }
  // Where no rank says how it ended, ranks may have died in this call.
  return channel.source < 0 && any_ended(end_->lives()) ? Cause::kPartition : Cause::kNone;
}

Cause WaitExplainer::cause_of_cycle() const {
  std::set<std::int32_t> groups;
  std::set<CollectiveOp> messages;
  bool all_made = true;
  for (const auto& [rank, life] : end_->lives()) {
    for (const OpenCall& call : life.open) {
      if (call.channel.source < 0) {
        groups.insert(call.channel.group);
        all_made = all_made && end_->is_made_by_all(call.channel);
      } else {
        messages.insert(call.signature.op);
      }
    }
  }
  if (!groups.empty() && !messages.empty()) return Cause::kNone;
  if (!all_made) return Cause::kSubgroupOnSomeRanks;
  if (groups.size() > 1) return Cause::kTwoCommCycle;
  if (messages.size() > 1) return Cause::kTagMismatch;
  return messages.contains(CollectiveOp::kSend) ? Cause::kSendSend : Cause::kNone;
}

Finding WaitExplainer::bad_end(EndOutcome outcome, const std::vector<Rank>& ranks) const {
  const bool stuck = outcome == EndOutcome::kStuck;
  Finding finding;
  finding.event = "end";
  finding.attempt = end_->attempt();
  finding.ranks = ranks;
  finding.message =
      stuck ? "never exited" : "did not end like the other ranks: " + absence(ranks[0]);
  finding.cause = stuck ? Cause::kNone : Cause::kRankCrash;
  const auto known = end_->lives().find(to_int(ranks[0]));
  if (known != end_->lives().end() && known->second.last_opt >= 0) {
    finding.step = known->second.last_opt;
  }
  return finding;
}

}  // namespace lockstep::laws
