// collectives-match: the members of a group issue matching calls in the same order.
#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/detail/forward_kinds.h"
#include "lockstep/laws/rules/call_slots.h"
#include "lockstep/laws/rules/checkers.h"
#include "lockstep/laws/rules/detail/calls/call_judge.h"
#include "lockstep/laws/rules/detail/calls/left_out.h"
#include "lockstep/laws/rules/detail/calls/message_pairs.h"
#include "lockstep/laws/rules/detail/group_lists.h"

namespace lockstep::laws {

namespace {

constexpr std::string_view kCollectivesMatch = "collectives-match";

bool is_pairwise(CollectiveOp op) { return op == CollectiveOp::kSend || op == CollectiveOp::kRecv; }

bool is_of_forwards(const Event& event) {
  return (kinds_of<ForwardEvent, BackwardEvent, BatchEvent>() >> event.body.index() & 1U) != 0;
}

class CollectivesMatch final : public Law {
 public:
  explicit CollectivesMatch(const LawPolicy& policy) : worlds_(policy.n_ranks) {}

  const LawInfo& info() const override { return *find_law(kCollectivesMatch); }

  EventKinds reads() const override {
    return kinds_of<CollectiveEvent,
                    GroupEvent,
                    DecisionEvent,
                    WrapEvent,
                    EndEvent,
                    EnvironmentEvent,
                    StepEvent,
                    PhaseEvent,
                    ForwardEvent,
                    BackwardEvent,
                    BatchEvent>();
  }

  void require(RecordOptions& options) const override { options.collectives = true; }

  void on_event(const Event& event, const NameTable& /*names*/) override {
    forwards_.on_event(event);
    observe(event);
  }

  void on_cohort(const CohortEvent& event, const NameTable& /*names*/) override {
    const auto* call = std::get_if<CollectiveEvent>(&event.first->body);
    const bool posted = call != nullptr && call->phase == CollectivePhase::kPosted;
    if (call != nullptr && !posted && !ends_left_out(*call)) return;
    const RankRange all = all_ranks(event);
    forwards_.on_cohort(event);
    if (is_of_forwards(*event.first)) return;
    if (std::holds_alternative<StepEvent>(event.first->body) && steps_.shares({}, all)) {
      ++steps_.at({}, all);
    } else if (std::holds_alternative<PhaseEvent>(event.first->body) && event.equal() &&
               evaluating_.shares({}, all)) {
      on_phase(*event.first, all);
    } else if (posted && event.equal() && !is_pairwise(call->signature.op) &&
               is_whole_group(event, *call)) {
      on_call(*event.first, *call, all);
    } else {
      deliver(event, false, [this](const Event& own, RankRange /*who*/) { observe(own); });
    }
  }

  LawResult finish(const NameTable& /*names*/) override {
    std::vector<Finding> findings = messages_.findings();
    std::ranges::move(lists_.findings(), std::back_inserter(findings));
    const CallJudge judge({forwards_, died_, decides_});
    for (auto& [key, group] : groups_) {
      n_checked_ += group.close_all();
      std::optional<Finding> finding = judge.judge(key, group);
      if (finding) findings.push_back(std::move(*finding));
    }
    return conclude(kCollectivesMatch,
                    std::move(findings),
                    n_checked_ + messages_.n_pairs(),
                    "collective events from two ranks or more");
  }

 private:
  void observe(const Event& event) {
    worlds_.on_event(event);
    decides_ = decides_ || std::holds_alternative<DecisionEvent>(event.body);
    if (const auto* collective = std::get_if<CollectiveEvent>(&event.body)) {
      on_collective(event, *collective);
    } else if (const auto* group = std::get_if<GroupEvent>(&event.body)) {
      lists_.on_group(event, *group);
    } else if (std::holds_alternative<StepEvent>(event.body)) {
      ++steps_.at({}, one_rank(event));
    } else if (std::holds_alternative<PhaseEvent>(event.body)) {
      on_phase(event, one_rank(event));
    } else if (const auto* wrap = std::get_if<WrapEvent>(&event.body)) {
      sizes_[{event.at.attempt, wrap->group}] = wrap->n_ranks;
    } else if (const auto* end = std::get_if<EndEvent>(&event.body)) {
      const bool died =
          end->outcome == EndOutcome::kKilled || end->outcome == EndOutcome::kException;
      if (died) died_.insert(event.at.attempt);
    }
  }

  void on_phase(const Event& event, RankRange who) {
    if (event.at.wrapper < 0) return;
    evaluating_.at({}, who) = std::get<PhaseEvent>(event.body).kind == PhaseKind::kEval;
  }

  void on_collective(const Event& event, const CollectiveEvent& call) {
    if (ends_left_out(call)) return on_left_out(event, call);
    if (call.phase != CollectivePhase::kPosted) return;
    if (is_pairwise(call.signature.op)) {
      messages_.on_message(event, call);
    } else {
      on_call(event, call, one_rank(event));
    }
  }

  /// Whether a cohort is the group that the call is made in, and its calls were equal until now.
  bool is_whole_group(const CohortEvent& event, const CollectiveEvent& call) {
    const calls::GroupKey group{event.first->at.attempt, call.group};
    const RankRange all = all_ranks(event);
    return members(group) == event.n_ranks() && groups_[group].callers.shares({}, all) &&
           steps_.shares({}, all) && evaluating_.shares({}, all);
  }

  void on_call(const Event& event, const CollectiveEvent& call, RankRange who) {
    const calls::GroupKey key{event.at.attempt, call.group};
    calls::GroupState& group = groups_[key];
    calls::Caller& caller = group.callers.at({}, who);
    const std::int64_t n_steps = steps_.at({}, who);
    caller.count(call.signature, n_steps);
    caller.next_seq = std::max(caller.next_seq, call.seq + 1);
    if (call.seq < group.first_seq) return;  // A slot that was complete: a second post of it.
    group.slots[call.seq].arrive(
        call.signature, {event.at.opt, n_steps, evaluating_.at({}, who)}, who);
    close_complete(key, group);
  }

  /// A rank made calls that it did not record: what they were is not known, only that they were made.
  void on_left_out(const Event& event, const CollectiveEvent& call) {
    const calls::GroupKey key{event.at.attempt, call.group};
    calls::GroupState& group = groups_[key];
    calls::Caller& caller = group.callers.at({}, one_rank(event));
    const std::int64_t n = n_left_out(call, caller.next_seq);
    if (n == 0) return;
    // The wrapper's own, as that one before them was: so counts of lines stay comparable.
    caller.count(call.signature, steps_.at({}, one_rank(event)), n);
    group.leave_out(caller.next_seq, call.seq);
    caller.next_seq = call.seq + 1;
    close_complete(key, group);
  }

  void close_complete(const calls::GroupKey& key, calls::GroupState& group) {
    if (const std::int32_t n_members = members(key); n_members > 0) {
      n_checked_ += group.close_complete(n_members);
    }
  }

  std::int32_t members(const calls::GroupKey& group) const {
    if (group.second == 0) return worlds_.of(group.first);
    const auto known = sizes_.find(group);
    return known == sizes_.end() ? 0 : known->second;
  }

  Worlds worlds_;
  ForwardKinds forwards_;
  std::map<calls::GroupKey, std::int32_t> sizes_;  // Members of a group, as far as wrappers say.
  std::map<calls::GroupKey, calls::GroupState> groups_;
  MessagePairs messages_;
  RankWrapperMap<std::int64_t> steps_;  // Of each rank's optimizers: wrappers do not matter.
  RankWrapperMap<bool> evaluating_;     // Whether its wrapped model is in evaluation mode.
  bool decides_ = false;                // There are decision events.
  std::set<std::int32_t> died_;         // Attempts in which a rank died.
  GroupLists lists_;
  std::int64_t n_checked_ = 0;
};

}  // namespace

std::unique_ptr<Law> make_collectives_match(const LawPolicy& policy) {
  return std::make_unique<CollectivesMatch>(policy);
}

}  // namespace lockstep::laws
