// progress: every posted collective completes, and all ranks end in the same way.
#include <algorithm>
#include <set>
#include <utility>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/detail/forward_kinds.h"
#include "lockstep/laws/detail/group_order.h"
#include "lockstep/laws/detail/rank_life.h"
#include "lockstep/laws/detail/stragglers.h"
#include "lockstep/laws/rules/checkers.h"
#include "lockstep/laws/rules/detail/calls/left_out.h"
#include "lockstep/laws/rules/detail/ends/attempt_end.h"
#include "lockstep/laws/rules/detail/ends/wait_explainer.h"

namespace lockstep::laws {

namespace {

constexpr std::string_view kProgress = "progress";

class Progress final : public Law {
 public:
  explicit Progress(const LawPolicy& policy)
      : worlds_(policy.n_ranks), one_clock_(policy.one_clock) {}

  const LawInfo& info() const override { return *find_law(kProgress); }

  EventKinds reads() const override { return kAllEventKinds & ~kinds_of<ValueEvent>(); }

  void require(RecordOptions& options) const override { options.collectives = true; }

  void on_event(const Event& event, const NameTable& names) override {
    worlds_.on_event(event);
    if (event.at.attempt < attempt_) return;
    if (event.at.attempt > attempt_) {
      // A restart forgives the attempt before it: that is what it is for.
      attempt_ = event.at.attempt;
      streams_ = {};
      groups_.clear();
    }
    forwards_.on_event(event);
    observe(event, one_rank(event), names);
  }

  void on_cohort(const CohortEvent& event, const NameTable& names) override {
    const Event& first = *event.first;
    const RankRange all = all_ranks(event);
    const auto* call = std::get_if<CollectiveEvent>(&first.body);
    const bool of_all = call == nullptr || (is_of_group(*call) && order_.knows(all));
    const bool alike = event.equal() || (kinds_of_words() >> first.body.index() & 1U) == 0;
    if (first.at.attempt != attempt_ || !of_all || !alike || !streams_.shares({}, all)) {
      return Law::on_cohort(event, names);
    }
    forwards_.on_cohort(event);
    observe(first, all, names);
    if (call != nullptr && call->phase == CollectivePhase::kPosted) {
      stragglers_.on_all_posted(event, *call);
    }
  }

  LawResult finish(const NameTable& /*names*/) override {
    RankLives lives;
    for (auto& [place, life] : streams_.all()) lives[place.rank] = std::move(life);
    const AttemptEnd end(attempt_, worlds_, groups_, std::move(lives));
    n_checked_ += std::count_if(end.lives().begin(), end.lives().end(), [](const auto& entry) {
      return entry.second.outcome != EndOutcome::kNone;
    });
    std::vector<Finding> findings;
    if (!end.was_stopped()) findings = judge(end);
    LawResult result =
        conclude(kProgress, std::move(findings), n_checked_, "collective events or end events");
    if (result.verdict == Verdict::kHolds) {
      result.advice = order_.advice();
      if (auto late = one_clock_ ? stragglers_.advice() : std::nullopt)
        result.advice.push_back(std::move(*late));
    }
    return result;
  }

 private:
  /// Kinds of which more is read than that there was one.
  static constexpr EventKinds kinds_of_words() {
    return kinds_of<EndEvent, CollectiveEvent, GroupEvent, PhaseEvent>();
  }

  static bool is_of_group(const CollectiveEvent& call) {
    return call.signature.op != CollectiveOp::kSend && call.signature.op != CollectiveOp::kRecv;
  }

  void observe(const Event& event, RankRange who, const NameTable& names) {
    RankLife& life = streams_.at({}, who);
    if (const auto* end = std::get_if<EndEvent>(&event.body)) {
      life.outcome = end->outcome;
      life.reason = end->reason;
      life.detail = names.text(end->detail);
      return;
    }
    const auto* state = std::get_if<StateEvent>(&event.body);
    if (state != nullptr && state->point == StatePoint::kEnd) return;  // Written as a rank ends.
    life.last_kind = kind_of(event.body);
    life.last_opt = event.at.opt;
    if (const auto* call = std::get_if<CollectiveEvent>(&event.body)) {
      on_call(life, event, *call, who);
    } else if (const auto* group = std::get_if<GroupEvent>(&event.body)) {
      groups_[group->group].assign(group->members.begin(), group->members.end());
      life.made.insert(group->group);
    } else if (const auto* phase = std::get_if<PhaseEvent>(&event.body)) {
      if (event.at.wrapper >= 0) life.is_evaluating = phase->kind == PhaseKind::kEval;
    } else if (std::holds_alternative<ForwardEvent>(event.body)) {
      ++life.n_forwards;
      life.last_sync = std::max(life.last_sync, event.at.sync);
    }
  }

  std::vector<Finding> judge(const AttemptEnd& end) const {
    const WaitExplainer explainer(end, forwards_);
    std::vector<Finding> findings = judge_calls(end, explainer);
    if (findings.empty()) return judge_ends(end, explainer);
    if (findings.size() > 1 && all_wait_for_waiters(findings)) {
      const Cause cause = explainer.cause_of_cycle();
      for (Finding& finding : findings) finding.cause = cause;
    }
    return findings;
  }

  /// One finding per channel: the first call in it that never completed.
  static std::vector<Finding> judge_calls(const AttemptEnd& end, const WaitExplainer& explainer) {
    std::map<Channel, std::int64_t> first_open;
    for (const auto& [rank, life] : end.lives()) {
      for (const OpenCall& call : life.open) {
        if (!end.is_stuck(life, call)) continue;
        const auto [known, is_new] = first_open.try_emplace(call.channel, call.seq);
        if (!is_new) known->second = std::min(known->second, call.seq);
      }
    }
    std::vector<Finding> findings;
    findings.reserve(first_open.size());
    for (const auto& [channel, seq] : first_open) {
      findings.push_back(explainer.waiting_in(channel, seq));
    }
    return findings;
  }

  Channel channel_of(const Event& event, const CollectiveEvent& call) const {
    const std::int32_t self = to_int(event.rank);
    const Signature& signature = call.signature;
    if (signature.op == CollectiveOp::kSend)
      return {call.group, self, world_rank(call.group, signature.peer), signature.tag};
    if (signature.op == CollectiveOp::kRecv)
      return {call.group, world_rank(call.group, signature.peer), self, signature.tag};
    return {call.group, -1, -1, 0};
  }

  /// Peers are named by their rank in the group; a group that no event describes is taken for one
  /// whose ranks are those of the world.
  std::int32_t world_rank(std::int32_t group, std::int32_t peer) const {
    const auto known = groups_.find(group);
    if (known == groups_.end() || peer < 0 || std::cmp_greater_equal(peer, known->second.size())) {
      return peer;
    }
    return known->second[static_cast<std::size_t>(peer)];
  }

  void on_call(RankLife& life, const Event& event, const CollectiveEvent& call, RankRange who) {
    const Channel channel = channel_of(event, call);
    if (ends_left_out(call)) {
      return order_.on_posted(event, call, who, life.leave_out(channel, call, event.at.sync));
    }
    if (call.phase == CollectivePhase::kPosted) {
      order_.on_posted(event, call, who, 1);
      if (channel.source < 0 && !who.all())
        stragglers_.on_posted(event, call, worlds_.of(attempt_));
      std::int64_t& n_posted = life.n_posted[channel];
      n_posted = std::max(n_posted, call.seq + 1);
      life.open.push_back({channel, call.seq, call.signature, event.at.opt, event.time});
      life.last_call = call.signature;
      n_checked_ += who.n;
      return;
    }
    // A call refused for its signature concerns collectives-match.
    const bool over =
        call.phase == CollectivePhase::kCompleted || call.status == CallStatus::kMismatch;
    if (over) return life.close(channel, call.seq);
    for (OpenCall& open : life.open) {
      if (open.seq != call.seq || open.channel != channel) continue;
      open.failed = true;
      open.timed_out = call.status == CallStatus::kTimedOut;
      open.gave_up = event.time;
    }
  }

  /// No rank is merely late: each missing rank waits in another call itself.
  static bool all_wait_for_waiters(const std::vector<Finding>& findings) {
    std::set<Rank> waiting;
    for (const Finding& finding : findings)
      waiting.insert(finding.ranks.begin(), finding.ranks.end());
    return std::all_of(findings.begin(), findings.end(), [&](const Finding& finding) {
      return !finding.missing.empty() &&
             std::all_of(finding.missing.begin(), finding.missing.end(), [&](Rank rank) {
               return waiting.contains(rank);
             });
    });
  }

  /// No rank waits; then all must have ended in the same way.
  static std::vector<Finding> judge_ends(const AttemptEnd& end, const WaitExplainer& explainer) {
    if (!any_ended(end.lives())) return {};
    const std::map<EndOutcome, std::vector<Rank>> by_outcome = end.outcomes();
    // After an exception the world is stopped, and the others are killed: not their
    // own doing.
    if (by_outcome.contains(EndOutcome::kException) && !by_outcome.contains(EndOutcome::kOk))
      return {};
    if (by_outcome.size() == 1 && !by_outcome.contains(EndOutcome::kStuck)) return {};
    std::vector<Finding> findings;
    for (const auto& [outcome, ranks] : by_outcome) {
      if (outcome != EndOutcome::kOk) findings.push_back(explainer.bad_end(outcome, ranks));
    }
    return findings;
  }

  Worlds worlds_;
  bool one_clock_;
  std::int32_t attempt_ = 0;
  RankWrapperMap<RankLife> streams_;  // Of ranks alone, while events come.
  GroupMembers groups_;
  std::int64_t n_checked_ = 0;
  GroupOrder order_;
  Stragglers stragglers_;
  ForwardKinds forwards_;
};

}  // namespace

std::unique_ptr<Law> make_progress(const LawPolicy& policy) {
  return std::make_unique<Progress>(policy);
}

}  // namespace lockstep::laws
