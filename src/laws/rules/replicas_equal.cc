// replicas-equal: at every step, evaluation, snapshot and at the end all replicas hold the same
// bits.
#include <set>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/detail/forward_kinds.h"
#include "lockstep/laws/rules/checkers.h"
#include "lockstep/laws/rules/detail/parameters/parameter_averages.h"
#include "lockstep/laws/rules/detail/parameters/replica_difference.h"
#include "lockstep/laws/rules/detail/parameters/rewritten.h"
#include "lockstep/laws/rules/detail/parameters/starts.h"
#include "lockstep/laws/rules/detail/parameters/step_evidence.h"
#include "lockstep/laws/rules/detail/parameters/uneven_reads.h"

namespace lockstep::laws {

namespace {

constexpr std::string_view kReplicasEqual = "replicas-equal";

/// How many tensors began to differ at each step, of all layouts together.
std::map<StepPlace, std::size_t> count_by_place(const std::vector<ReplicaDifference>& differences) {
  std::map<StepPlace, std::size_t> n;
  for (const ReplicaDifference& open : differences) n[open.place] += open.auxiliary ? 0U : 1U;
  return n;
}

bool is_sync_point(StatePoint point) {
  return point == StatePoint::kStep || point == StatePoint::kEval || point == StatePoint::kSave ||
         point == StatePoint::kEnd;
}

class ReplicasEqual final : public Law {
 public:
  explicit ReplicasEqual(const LawPolicy& policy)
      : n_ranks_(policy.n_ranks), whole_(policy.coverage <= 1) {}

  const LawInfo& info() const override { return *find_law(kReplicasEqual); }

  EventKinds reads() const override {
    return kinds_of<StateEvent,
                    WrapEvent,
                    GradEvent,
                    ClipEvent,
                    StepEvent,
                    ForwardEvent,
                    BackwardEvent,
                    BatchEvent,
                    CommHookEvent,
                    OuterStepEvent,
                    OptimizerEvent,
                    LoneEvent,
                    ZeroGradEvent,
                    SnapshotEvent>();
  }

  void require(RecordOptions& options) const override {
    options.states = true;
    options.grad_post = true;
    options.grad_used = true;
    options.lone_steps = true;
  }

  void on_event(const Event& event, const NameTable& names) override {
    forwards_.on_event(event);
    observe(event, one_rank(event), names);
  }

  void on_cohort(const CohortEvent& event, const NameTable& names) override {
    const auto* grad = std::get_if<GradEvent>(&event.first->body);
    const bool local =
        grad != nullptr && grad->point != GradPoint::kPost && grad->point != GradPoint::kUsed;
    if (local) return;
    forwards_.on_cohort(event);
    const RankRange all = all_ranks(event);
    const bool is_lone = std::holds_alternative<LoneEvent>(event.first->body);
    const bool together = !is_lone && event.equal() && wrappers_.are_replicas(event, n_ranks_) &&
                          counter_.counts(*event.first, all) &&
                          averages_.shares(wrapper_of(event.first->at), all);
    deliver(event, together, [&](const Event& own, RankRange who) { observe(own, who, names); });
  }

  LawResult finish(const NameTable& names) override {
    for (const auto& [alignment, ballot] : pending_) judge(alignment, ballot, names);
    pending_.clear();
    std::vector<Finding> findings;
    const DifferenceExplainer explainer({wrappers_,
                                         forwards_,
                                         starts_,
                                         rewritten_,
                                         steps_,
                                         loads_,
                                         reads_,
                                         hooked_,
                                         n_ranks_,
                                         names});
    const std::map<StepPlace, std::size_t> n_parted = count_by_place(unexplained_);
    for (ReplicaDifference& open : unexplained_) {
      if (!open.auxiliary) open.n_parted = n_parted.at(open.place);
      const bool stopped = averages_.may_end_in(open.place.wrapper, open.interval, open.tensor);
      if (stopped && trained_alone(open, names)) continue;
      if (is_model_of_its_own(open)) continue;
      explainer.explain(open);
      findings.push_back(std::move(open.finding));
    }
    return conclude(kReplicasEqual,
                    std::move(findings),
                    n_checked_,
                    "param events after steps, from two ranks or more");
  }

 private:
  void observe(const Event& event, RankRange who, const NameTable& names) {
    loads_.on_event(event, who);
    if (const auto* snapshot = std::get_if<SnapshotEvent>(&event.body)) {
      reads_.on_event(event, *snapshot, who);
    } else if (const auto* state = std::get_if<StateEvent>(&event.body)) {
      on_state(event, *state, who, names);
    } else if (const auto* wrap = std::get_if<WrapEvent>(&event.body)) {
      wrappers_.on_wrap(event, *wrap);
    } else if (const auto* hook = std::get_if<CommHookEvent>(&event.body)) {
      if (hook->effect == HookEffect::kOther) hooked_.insert(wrapper_of(event.at));
    } else if (const auto* outer = std::get_if<OuterStepEvent>(&event.body)) {
      const std::int32_t n_members = wrappers_.n_members(wrapper_of(event.at), n_ranks_);
      const auto ended = averages_.on_outer(event, *outer, who, n_members, names);
      if (ended) forgive(*ended, names);
    } else if (const auto* lone = std::get_if<LoneEvent>(&event.body)) {
      const std::int32_t n_members = wrappers_.n_members(wrapper_of(event.at), n_ranks_);
      const auto ended = averages_.on_lone(event, *lone, n_members, names);
      if (ended) forgive(*ended, names);
    } else {
      if (std::holds_alternative<StepEvent>(event.body)) averages_.on_step(event);
      steps_.on_event(event, who);
    }
  }

  void on_state(const Event& event,
                const StateEvent& state,
                RankRange who,
                const NameTable& names) {
    steps_.on_event(event, who);
    if (state.kind != StateKind::kParam && state.kind != StateKind::kAuxiliary) return;
    if (state.kind == StateKind::kAuxiliary) {
      auxiliary_.insert(static_cast<std::uint32_t>(state.layout));
    }
    if (state.point == StatePoint::kForward || state.point == StatePoint::kWrap) {
      starts_.on_state(event, state, who);
      return;
    }
    if (state.point == StatePoint::kFound) {
      rewritten_.on_state(event, state, who, names);
      return;
    }
    if (!is_sync_point(state.point)) return;
    const AlignmentKey alignment =
        counter_.next(event, static_cast<std::int32_t>(state.point), state.layout, who);
    Ballot& ballot = pending_[alignment];
    ballot.add(event, state.digests, who);
    if (ballot.n_ranks() < wrappers_.n_members(alignment.wrapper, n_ranks_)) return;
    judge(alignment, ballot, names);
    const StepPlace here{alignment.wrapper, alignment.sync, ballot.majority_opt()};
    pending_.erase(alignment);
    forget_before(here);
  }

  // Ranks never come back to an earlier synchronising forward once all have passed it.
  void forget_before(const StepPlace& here) {
    steps_.forget_before(here);
    reads_.forget_before(here.wrapper, here.opt);
    rewritten_.forget_before(here.wrapper, here.sync, [&](std::int32_t sync) {
      return steps_.keeps_any_of(here.wrapper, sync);
    });
  }

  void judge(const AlignmentKey& alignment, const Ballot& ballot, const NameTable& names) {
    n_checked_ += ballot.n_comparisons();
    if (ballot.unanimous()) {
      const bool steps = static_cast<StatePoint>(alignment.what) == StatePoint::kStep;
      rewritten_.on_equal(alignment, ballot.majority_opt() + (steps ? 1 : 0));
      return;
    }
    const std::span<const NameId> layout = names.layout(static_cast<LayoutId>(alignment.layout));
    std::vector<std::size_t> differ;
    for (std::size_t i = 0; i < layout.size(); ++i) {
      const bool meant = wrappers_.ignored(alignment.wrapper, layout[i], names);
      if (!meant && !ballot.minority(i).empty()) differ.push_back(i);
    }
    // A loop without a wrapper is known to be one from its second step on: what had parted before has been said.
    const WrapEvent* const wrap = wrappers_.find(alignment.wrapper);
    const bool by_hand = wrap != nullptr && !wrap->synchronizes;
    for (const std::size_t i : differ) {
      if (by_hand && reported_.contains({{alignment.wrapper.attempt, -1}, layout[i]})) continue;
      if (!reported_.insert({alignment.wrapper, layout[i]}).second) continue;
      ReplicaDifference open = difference(alignment, ballot, layout[i], names);
      open.finding.ranks = ballot.minority(i);
      open.is_of_few = differ.size() * 2 <= layout.size();
      unexplained_.push_back(std::move(open));
    }
  }

  ReplicaDifference difference(const AlignmentKey& alignment,
                               const Ballot& ballot,
                               NameId tensor,
                               const NameTable& names) {
    const StepPlace place{alignment.wrapper, alignment.sync, ballot.majority_opt()};
    steps_.keep(place);
    reads_.keep(place.wrapper, place.opt);
    Finding finding;
    finding.attempt = alignment.wrapper.attempt;
    finding.event = name_of(static_cast<StatePoint>(alignment.what));
    finding.tensor = names.text(tensor);
    finding.step = place.opt;
    const std::int32_t n_equal = rewritten_.n_equal(alignment.wrapper, tensor, names);
    return {.finding = std::move(finding),
            .place = place,
            .tensor = tensor,
            .opts_differ = ballot.opts_differ(),
            .auxiliary = auxiliary_.contains(alignment.layout),
            .n_equal = n_equal,
            // Parts of a tensor do not tell.
            .was_put_right = n_equal >= 0 && whole_,
            .interval = averages_.common_interval(alignment.wrapper)};
  }

  /// Whether the ranks parted because nothing was meant to keep them together: the step used
  /// gradients that were not reduced, or that a hook had left different on purpose.
  bool trained_alone(const ReplicaDifference& open, const NameTable& names) const {
    const WrapperKey wrapper = open.place.wrapper;
    const StepEvidence* const evidence = steps_.find(open.place);
    if (open.auxiliary || evidence == nullptr || !evidence->used.known()) return false;
    if (starts_.differed(wrapper, open.tensor, names)) return false;
    return !evidence->post.known() || (hooked_.contains(wrapper) && evidence->post.differs());
  }

  /// Whether no wrapper holds the parameters, which ranks began apart and train apart: nothing says
  /// that they are replicas.
  bool is_model_of_its_own(const ReplicaDifference& open) const {
    const WrapperKey wrapper = open.place.wrapper;
    const StepEvidence* const evidence = steps_.find(open.place);
    return wrapper.wrapper < 0 && evidence != nullptr && evidence->used.differs() &&
           starts_.any_differed(StatePoint::kWrap, wrapper);
  }

  /// The parameters of ranks that trained alone were averaged: what differed before was meant.
  void forgive(const ParameterAverages::Ended& ended, const NameTable& names) {
    std::erase_if(unexplained_, [&](const ReplicaDifference& open) {
      const bool meant = open.place.wrapper == ended.wrapper && open.interval == ended.interval &&
                         Wrappers::contains(ended.tensors, open.tensor) &&
                         trained_alone(open, names);
      if (meant) reported_.erase({ended.wrapper, open.tensor});
      return meant;
    });
    steps_.keep_nothing();
    for (const ReplicaDifference& open : unexplained_) steps_.keep(open.place);
  }

  std::int32_t n_ranks_;
  bool whole_;
  Wrappers wrappers_;
  ForwardKinds forwards_;
  Counter counter_;
  ParameterAverages averages_;
  std::set<WrapperKey> hooked_;  // By a hook that does something else than averaging.
  std::map<AlignmentKey, Ballot> pending_;
  StepEvidences steps_;
  Starts starts_;
  Rewritten rewritten_;
  Loads loads_;
  UnevenReads reads_;
  std::set<std::uint32_t> auxiliary_;  // Layouts.
  std::vector<ReplicaDifference> unexplained_;
  std::set<std::pair<WrapperKey, NameId>> reported_;
  std::int64_t n_checked_ = 0;
};

}  // namespace

std::unique_ptr<Law> make_replicas_equal(const LawPolicy& policy) {
  return std::make_unique<ReplicasEqual>(policy);
}

}  // namespace lockstep::laws
