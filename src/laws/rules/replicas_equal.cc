// replicas-equal: at every step, evaluation, snapshot and at the end all replicas hold the same
// bits.
#include <bit>
#include <limits>
#include <optional>
#include <set>

#include "lockstep/base/text.h"
#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/detail/forward_kinds.h"
#include "lockstep/laws/rules/checkers.h"
#include "lockstep/laws/rules/detail/parameters/agreement.h"
#include "lockstep/laws/rules/detail/parameters/parameter_averages.h"
#include "lockstep/laws/rules/detail/parameters/rewritten.h"
#include "lockstep/laws/rules/detail/parameters/starts.h"

namespace lockstep::laws {

namespace {

constexpr std::string_view kReplicasEqual = "replicas-equal";

class ReplicasEqual final : public Law {
 public:
  explicit ReplicasEqual(const LawPolicy& policy) : n_ranks_(policy.n_ranks) {}

  const LawInfo& info() const override { return *find_law(kReplicasEqual); }

  EventKinds reads() const override {
    return kinds_of<StateEvent,
                    WrapEvent,
                    GradEvent,
                    StepEvent,
                    ForwardEvent,
                    BackwardEvent,
                    BatchEvent,
                    CommHookEvent,
                    OuterStepEvent,
                    LoneEvent>();
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
    for (Unexplained& open : unexplained_) {
      const WrapperKey wrapper = std::get<0>(open.place);
      const bool stopped = averages_.may_end_in(wrapper, open.interval, open.tensor);
      if (stopped && trained_alone(open, names)) continue;
      explain(open, names);
      findings.push_back(std::move(open.finding));
    }
    return conclude(kReplicasEqual,
                    std::move(findings),
                    n_checked_,
                    "param events after steps, from two ranks or more");
  }

 private:
  using StepKey = std::tuple<WrapperKey, std::int32_t, std::int32_t>;  // Wrapper, sync and step.

  struct Unexplained {
    Finding finding;
    StepKey place;
    NameId tensor = kNoName;
    bool opts_differ = false;     ///< Ranks met here with different numbers of steps.
    bool is_one_of_many = false;  ///< Most tensors of its layout are equal.
    bool auxiliary = false;       ///< The program keeps it equal by itself.
    std::int32_t n_equal = -1;    ///< Steps that were finished where it was last equal.
    std::int32_t interval = 0;    ///< Between two averages of the parameters.
  };

  static bool is_sync_point(StatePoint point) {
    return point == StatePoint::kStep || point == StatePoint::kEval || point == StatePoint::kSave ||
           point == StatePoint::kEnd;
  }

  void observe(const Event& event, RankRange who, const NameTable& names) {
    if (const auto* state = std::get_if<StateEvent>(&event.body)) {
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
      gather(event, who);
    }
  }

  void gather(const Event& event, RankRange who) {
    const StepKey place{wrapper_of(event.at), event.at.sync, event.at.opt};
    if (const auto* grad = std::get_if<GradEvent>(&event.body)) {
      gather_gradient(place, *grad, who);
    } else if (const auto* step = std::get_if<StepEvent>(&event.body)) {
      StepEvidence& evidence = evidence_at(place);
      const std::uint64_t rate[] = {std::bit_cast<std::uint64_t>(step->lr),
                                    step->skipped ? 1U : 0U};
      evidence.rates.add(rate, who);
      evidence.rates_differ = evidence.rates.differs(0);
      evidence.skips_differ = evidence.rates.differs(1);
      evidence.scaled = evidence.scaled || step->scale != 1.0;
    } else if (const auto* forward = std::get_if<ForwardEvent>(&event.body)) {
      StepEvidence& evidence = evidence_at(place);
      evidence.wrapped_forward = evidence.wrapped_forward || forward->through_wrapper;
    } else if (const auto* backward = std::get_if<BackwardEvent>(&event.body)) {
      StepEvidence& evidence = evidence_at(place);
      std::int32_t& last = backward->reduced ? evidence.reduced_micro : evidence.local_micro;
      last = std::max(last, event.at.micro);
    }
  }

  void gather_gradient(const StepKey& place, const GradEvent& grad, RankRange who) {
    if (grad.point == GradPoint::kPost) {
      StepEvidence& evidence = evidence_at(place);
      evidence.post_layout = grad.layout;
      evidence.post.add(grad.digests, who);
    } else if (grad.point == GradPoint::kUsed) {
      StepEvidence& evidence = evidence_at(place);
      evidence.used_layout = grad.layout;
      evidence.used.add(grad.digests, who);
      evidence.unused.add(unused_words(grad), who);
    }
  }

  std::span<const std::uint64_t> unused_words(const GradEvent& grad) {
    words_.resize(grad.digests.size());
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] = bit(grad.undefined, i) ? 1U : 0U;
    return words_;
  }

  StepEvidence& evidence_at(const StepKey& place) {
    if (last_ == nullptr || place != last_place_) {
      last_place_ = place;
      last_ = &evidence_[place];
    }
    return *last_;
  }

  void on_state(const Event& event,
                const StateEvent& state,
                RankRange who,
                const NameTable& names) {
    if (state.kind == StateKind::kOptimizer && state.point == StatePoint::kStep) {
      evidence_at({wrapper_of(event.at), event.at.sync, event.at.opt})
          .optimizer.add(state.digests, who);
    }
    if (state.kind != StateKind::kParam && state.kind != StateKind::kAuxiliary) return;
    if (state.kind == StateKind::kAuxiliary) {
      auxiliary_.insert(static_cast<std::uint32_t>(state.layout));
    }
    if (state.point == StatePoint::kLoad) loaded_.insert(wrapper_of(event.at));
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
    const StepKey here{alignment.wrapper, alignment.sync, ballot.majority_opt()};
    pending_.erase(alignment);
    forget_before(here);
  }

  // Ranks never come back to an earlier synchronising forward once all have passed it.
  void forget_before(const StepKey& here) {
    constexpr std::int32_t kLowest = std::numeric_limits<std::int32_t>::min();
    last_ = nullptr;
    auto place = evidence_.lower_bound({std::get<0>(here), kLowest, kLowest});
    while (place != evidence_.end() && place->first < here) {
      place = kept_.contains(place->first) ? std::next(place) : evidence_.erase(place);
    }
    rewritten_.forget_before(std::get<0>(here), std::get<1>(here), [&](std::int32_t sync) {
      const auto kept = kept_.lower_bound({std::get<0>(here), sync, kLowest});
      return kept != kept_.end() && std::get<0>(*kept) == std::get<0>(here) &&
             std::get<1>(*kept) == sync;
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
    std::size_t n_differ = 0;
    for (std::size_t i = 0; i < layout.size(); ++i)
      n_differ += ballot.minority(i).empty() ? 0U : 1U;
    for (std::size_t i = 0; i < layout.size(); ++i) {
      std::vector<Rank> ranks = ballot.minority(i);
      if (ranks.empty() || wrappers_.ignored(alignment.wrapper, layout[i], names)) continue;
      if (!reported_.insert({alignment.wrapper, layout[i]}).second) continue;
      Finding finding;
      finding.attempt = alignment.wrapper.attempt;
      finding.event = name_of(static_cast<StatePoint>(alignment.what));
      finding.tensor = names.text(layout[i]);
      finding.ranks = std::move(ranks);
      finding.step = ballot.majority_opt();
      const StepKey place{alignment.wrapper, alignment.sync, ballot.majority_opt()};
      kept_.insert(place);
      unexplained_.push_back(
          {.finding = std::move(finding),
           .place = place,
           .tensor = layout[i],
           .opts_differ = ballot.opts_differ(),
           .is_one_of_many = n_differ * 2 <= std::max<std::size_t>(layout.size(), 2),
           .auxiliary = auxiliary_.contains(alignment.layout),
           .n_equal = rewritten_.n_equal(alignment.wrapper, layout[i], names),
           .interval = averages_.common_interval(alignment.wrapper)});
    }
  }

  /// Whether the ranks parted because nothing was meant to keep them together: the step used
  /// gradients that were not reduced, or that a hook had left different on purpose.
  bool trained_alone(const Unexplained& open, const NameTable& names) const {
    const WrapperKey wrapper = std::get<0>(open.place);
    const auto found = evidence_.find(open.place);
    if (open.auxiliary || found == evidence_.end() || !found->second.used.known()) return false;
    if (differed_at_start(wrapper, open.tensor, names)) return false;
    const StepEvidence& evidence = found->second;
    if (!evidence.post.known()) return true;
    return hooked_.contains(wrapper) && evidence.post.differs();
  }

  /// The parameters of ranks that trained alone were averaged: what differed before was meant.
  void forgive(const ParameterAverages::Ended& ended, const NameTable& names) {
    std::erase_if(unexplained_, [&](const Unexplained& open) {
      const bool meant =
          std::get<0>(open.place) == ended.wrapper && open.interval == ended.interval &&
          Wrappers::contains(ended.tensors, open.tensor) && trained_alone(open, names);
      if (meant) reported_.erase({ended.wrapper, open.tensor});
      return meant;
    });
    kept_.clear();
    for (const Unexplained& open : unexplained_) kept_.insert(open.place);
  }

  // At the end, when the evidence of all ranks is in: some of it is recorded after the parameters.
  void explain(Unexplained& open, const NameTable& names) const {
    Finding& finding = open.finding;
    const WrapperKey wrapper = std::get<0>(open.place);
    finding.message = "differs from the other replicas";
    if (differed_at_start(wrapper, open.tensor, names)) {
      finding.message += "; they already differed before the first step";
      finding.cause = cause_at_start(wrapper, open.tensor, names);
      return;
    }
    if (open.auxiliary || is_frozen(wrapper, open.tensor, names)) {
      finding.cause = open.auxiliary ? Cause::kEmaDrift : cause_of_frozen(open, names);
      return;
    }
    if (is_new(wrapper, open.tensor, names)) {
      finding.message += "; the model has got this parameter since it was wrapped";
      finding.cause = Cause::kParamReplaced;
      return;
    }
    if (explain_by_writer(open)) return;
    finding.cause = forwards_.difference(wrapper);
    explain_by_evidence(open, names);
    // A rank that ran out of inputs has missed updates that the others made.
    if (finding.cause != Cause::kNone || forwards_.is_even(wrapper)) return;
    finding.message += "; ranks had different numbers of batches";
    finding.cause = Cause::kUnevenBatches;
  }

  /// Whether something had written to the tensor on some of the ranks since the last step.
  bool explain_by_writer(Unexplained& open) const {
    Finding& finding = open.finding;
    const auto& [wrapper, sync, opt] = open.place;
    Rewritten::Writers writers =
        rewritten_.writers(wrapper, sync, open.tensor, wrappers_.n_members(wrapper, n_ranks_));
    // After steps that were not compared, what a rank found says nothing of the others.
    const bool was_equal = open.n_equal == opt;
    if (!writers.ranks.empty() && (was_equal || writers.all_wrote)) {
      finding.event = name_of(StatePoint::kFound);
      finding.ranks = std::move(writers.ranks);
      if (!was_equal) {
        finding.message += "; it already did before this forward";
        return true;
      }
    } else if (!was_equal || finding.event == name_of(StatePoint::kStep)) {
      return false;
    }
    finding.message += "; something has written to it since a step left it equal everywhere";
    finding.cause = loaded_.contains(wrapper) ? Cause::kLoadRank0Only : Cause::kParameterNudged;
    return true;
  }

  void explain_by_evidence(Unexplained& open, const NameTable& names) const {
    Finding& finding = open.finding;
    const auto found = evidence_.find(open.place);
    if (found == evidence_.end()) return;
    const StepEvidence& evidence = found->second;
    const auto post = index_of(evidence.post_layout, open.tensor, names);
    const auto used = index_of(evidence.used_layout, open.tensor, names);
    const bool post_differs = tell(finding, evidence.post, post, "reduced gradients");
    const bool used_differs = tell(finding, evidence.used, used, "the gradients the step used");
    if (evidence.optimizer.known()) {
      const bool differs = evidence.optimizer.differs();
      finding.message += differs ? "; optimizer state differs" : "; optimizer state is equal";
    }
    if (finding.cause != Cause::kNone) return;
    if (used && evidence.unused.differs(*used)) {
      finding.message += ": some ranks had none";
      finding.cause = Cause::kUnusedNoneVsZero;
      return;
    }
    finding.cause = cause(evidence, open, post_differs, used_differs);
  }

  // Whether it needed no gradient at wrapping; whether the wrapper has never seen it.
  bool is_frozen(WrapperKey wrapper, NameId tensor, const NameTable& names) const {
    const WrapEvent* wrap = wrappers_.find(wrapper);
    return wrap != nullptr && wrap->frozen != kNoLayout &&
           Wrappers::contains(names.layout(wrap->frozen), tensor);
  }

  bool is_new(WrapperKey wrapper, NameId tensor, const NameTable& names) const {
    const WrapEvent* wrap = wrappers_.find(wrapper);
    return wrap != nullptr && wrap->params != kNoLayout &&
           !Wrappers::contains(names.layout(wrap->params), tensor);
  }

  Cause cause_of_frozen(const Unexplained& open, const NameTable& names) const {
    const auto found = evidence_.find(open.place);
    const bool trained = found != evidence_.end() &&
                         index_of(found->second.used_layout, open.tensor, names).has_value();
    return trained ? Cause::kUnfreezeAfterWrap : Cause::kNongradParamDrift;
  }

  Cause cause_at_start(WrapperKey wrapper, NameId tensor, const NameTable& names) const {
    if (loaded_.contains(wrapper)) return Cause::kLoadRank0Only;
    const WrapEvent* wrap = wrappers_.find(wrapper);
    if (wrap != nullptr && !wrap->synchronizes) return Cause::kInitNoBroadcast;
    return starts_.differed(StatePoint::kWrap, wrapper, tensor, names).value_or(true)
               ? Cause::kNone
               : Cause::kParameterNudged;
  }

  /// Adds what is known about one kind of gradient; true when it differed.
  static bool tell(Finding& finding,
                   const Agreement& agreement,
                   std::optional<std::size_t> tensor,
                   const char* what) {
    if (!tensor || !agreement.known()) return false;
    const bool differs = agreement.differs(*tensor);
    finding.message += std::string("; ") + what + (differs ? " differed" : " were equal");
    return differs;
  }

  Cause cause(const StepEvidence& evidence,
              const Unexplained& open,
              bool post_differs,
              bool used_differs) const {
    const WrapperKey wrapper = std::get<0>(open.place);
    const bool fell_behind = open.opts_differ && forwards_.is_even(wrapper);
    if (evidence.skips_differ || fell_behind)
      return evidence.scaled ? Cause::kScalerInfLocal : Cause::kNanSkipOneRank;
    if (evidence.rates_differ) return Cause::kLrPerRank;
    if (post_differs || used_differs) return cause_of_gradients(evidence, open, post_differs);
    if (!evidence.used.known() || !evidence.rates.known()) return Cause::kNone;
    if (evidence.optimizer.differs())
      return wrapper.attempt > 0 ? Cause::kOptStateRootOnly : Cause::kNone;
    // Everything that goes into the update was equal, what came out of it is not: other arithmetic
    // has other results everywhere, a flipped bit is in one tensor.
    return open.is_one_of_many ? Cause::kSdcAfterReduce : Cause::kReplicaDrift;
  }

  Cause cause_of_gradients(const StepEvidence& evidence,
                           const Unexplained& open,
                           bool post_differs) const {
    const WrapperKey wrapper = std::get<0>(open.place);
    const WrapEvent* wrap = wrappers_.find(wrapper);
    if (wrap == nullptr || !wrap->synchronizes) return Cause::kNone;
    if (!evidence.wrapped_forward) return Cause::kBypassWrapper;
    if (!evidence.post.known()) return Cause::kNone;
    // Members of one reduction are given one result.
    const bool one_of_many = open.finding.ranks.size() == 1 && wrap->n_ranks > 2;
    if (post_differs) return one_of_many ? Cause::kSdcAfterReduce : Cause::kNone;
    // Whatever came after it, clipping included, such a contribution is what the ranks differ in first.
    const bool is_late =
        evidence.reduced_micro >= 0 && evidence.local_micro > evidence.reduced_micro;
    return is_late || forwards_.any_inside(wrapper) ? Cause::kLastMicroUnsynced
                                                    : Cause::kClipOneRank;
  }

  static std::optional<std::size_t> index_of(LayoutId layout, NameId name, const NameTable& names) {
    const std::span<const NameId> list = names.layout(layout);
    const auto at = std::find(list.begin(), list.end(), name);
    if (at == list.end()) return std::nullopt;
    return static_cast<std::size_t>(at - list.begin());
  }

  bool differed_at_start(WrapperKey wrapper, NameId tensor, const NameTable& names) const {
    return starts_.differed(StatePoint::kForward, wrapper, tensor, names)
        .value_or(starts_.differed(StatePoint::kWrap, wrapper, tensor, names).value_or(false));
  }

  std::int32_t n_ranks_;
  Wrappers wrappers_;
  ForwardKinds forwards_;
  Counter counter_;
  ParameterAverages averages_;
  std::set<WrapperKey> hooked_;  // By a hook that does something else than averaging.
  std::map<AlignmentKey, Ballot> pending_;
  std::map<StepKey, StepEvidence> evidence_;
  StepKey last_place_;
  StepEvidence* last_ = nullptr;      // What evidence_ holds at last_place_.
  std::vector<std::uint64_t> words_;  // Scratch.
  Starts starts_;
  Rewritten rewritten_;
  std::set<WrapperKey> loaded_;
  std::set<std::uint32_t> auxiliary_;  // Layouts.
  std::set<StepKey> kept_;             // StepEvidence that an unexplained finding still needs.
  std::vector<Unexplained> unexplained_;
  std::set<std::pair<WrapperKey, NameId>> reported_;
  std::int64_t n_checked_ = 0;
};

}  // namespace

std::unique_ptr<Law> make_replicas_equal(const LawPolicy& policy) {
  return std::make_unique<ReplicasEqual>(policy);
}

}  // namespace lockstep::laws
