#include "lockstep/laws/rules/detail/parameters/replica_difference.h"

#include <algorithm>
#include <string>
#include <utility>

namespace lockstep::laws {

namespace {

/// Adds what is known about one kind of gradient; true when it differed.
bool tell(Finding& finding,
          const Agreement& agreement,
          std::optional<std::size_t> tensor,
          const char* what) {
  if (!tensor || !agreement.known()) return false;
  const bool differs = agreement.differs(*tensor);
  finding.message += std::string("; ") + what + (differs ? " differed" : " were equal");
  return differs;
}

}  // namespace

void DifferenceExplainer::explain(ReplicaDifference& open) const {
  Finding& finding = open.finding;
  const WrapperKey wrapper = open.place.wrapper;
  finding.message = "differs from the other replicas";
  if (!open.was_put_right && known_.starts.differed(wrapper, open.tensor, known_.names)) {
    finding.message += "; they already differed before the first step";
    finding.cause = cause_at_start(open);
    return;
  }
  if (open.auxiliary || is_frozen(open)) {
    finding.cause = open.auxiliary ? Cause::kEmaDrift : cause_of_frozen(open);
    return;
  }
  if (is_new(open)) {
    finding.message += "; the parameter was added after wrapping";
    finding.cause = Cause::kParamReplaced;
    return;
  }
  if (explain_by_writer(open)) return;
  finding.cause = known_.forwards.difference(wrapper);
  explain_by_evidence(open);
  // A rank that ran out of inputs has missed updates that the others made.
  if (finding.cause != Cause::kNone || known_.forwards.is_even(wrapper)) return;
  finding.message += "; ranks had different numbers of batches";
  finding.cause = Cause::kUnevenBatches;
}

bool DifferenceExplainer::explain_by_writer(ReplicaDifference& open) const {
  Finding& finding = open.finding;
  const auto& [wrapper, sync, opt] = open.place;
  Rewritten::Writers writers = known_.rewritten.writers(
      wrapper, sync, open.tensor, known_.wrappers.n_members(wrapper, known_.n_ranks));
  // After steps that were not compared, what a rank found says nothing of the others.
  const bool was_equal = open.n_equal == opt;
  if (!writers.ranks.empty() && (was_equal || writers.all_wrote)) {
    finding.event = name_of(StatePoint::kFound);
    finding.ranks = std::move(writers.ranks);
    if (!was_equal) {
      finding.message += "; it already differed before this forward";
      return true;
    }
  } else if (!was_equal || finding.event == name_of(StatePoint::kStep)) {
    return false;
  }
  finding.message += "; it was equal on all ranks after a step, and has been written since";
  finding.cause = cause_of_write(wrapper);
  const auto read = known_.reads.find(wrapper, opt, known_.names);
  if (!read) return true;
  finding.message += "; " + read->text;
  if (read->written) finding.cause = Cause::kReadBeforeCommit;
  return true;
}

void DifferenceExplainer::explain_by_evidence(ReplicaDifference& open) const {
  Finding& finding = open.finding;
  const StepEvidence* const found = known_.steps.find(open.place);
  if (found == nullptr) return;
  const StepEvidence& evidence = *found;
  const auto post = index_of(evidence.post_layout, open.tensor);
  const auto used = index_of(evidence.used_layout, open.tensor);
  const bool post_differs = tell(finding, evidence.post, post, "reduced gradients");
  const bool used_differs = tell(finding, evidence.used, used, "the gradients the step used");
  if (evidence.optimizer.known()) {
    const bool differs = evidence.optimizer.differs();
    finding.message += differs ? "; optimizer state differs" : "; optimizer state is equal";
  }
  if (finding.cause != Cause::kNone) return;
  if (used && evidence.unused.differs(*used)) {
    finding.message += ": some ranks had none";
    finding.cause = evidence.cleared ? Cause::kClearedBeforeStep : cause_of_absence(open);
    return;
  }
  finding.cause = cause_of_step(evidence, open, post_differs, used_differs);
  if (finding.cause != Cause::kParameterNudged) return;
  finding.message +=
      open.n_parted > 1 ? "; " + std::to_string(open.n_parted) + " tensors" : "; several ranks";
  finding.message += " differ: too many for a flipped bit, too few for different arithmetic";
}

// A wrapper reduces what a rank has none of as zeros; a loop that reduces by itself leaves it out, or sends
// another parameter's in its place.
Cause DifferenceExplainer::cause_of_absence(const ReplicaDifference& open) const {
  const WrapperKey wrapper = open.place.wrapper;
  const WrapEvent* const loop = known_.wrappers.find_loop(wrapper.attempt);
  const bool by_hand =
      loop != nullptr && (wrapper.wrapper < 0 || known_.wrappers.find(wrapper) == loop);
  return by_hand ? Cause::kAbsentGradientsSkipped : Cause::kUnusedNoneVsZero;
}

bool DifferenceExplainer::is_frozen(const ReplicaDifference& open) const {
  const WrapEvent* wrap = known_.wrappers.find(open.place.wrapper);
  return wrap != nullptr && wrap->frozen != kNoLayout &&
         Wrappers::contains(known_.names.layout(wrap->frozen), open.tensor);
}

bool DifferenceExplainer::is_new(const ReplicaDifference& open) const {
  const WrapEvent* wrap = known_.wrappers.find(open.place.wrapper);
  return wrap != nullptr && wrap->params != kNoLayout &&
         !Wrappers::contains(known_.names.layout(wrap->params), open.tensor);
}

Cause DifferenceExplainer::cause_of_frozen(const ReplicaDifference& open) const {
  const StepEvidence* const found = known_.steps.find(open.place);
  const bool trained = found != nullptr && index_of(found->used_layout, open.tensor).has_value();
  return trained ? Cause::kUnfreezeAfterWrap : Cause::kNongradParamDrift;
}

Cause DifferenceExplainer::cause_at_start(const ReplicaDifference& open) const {
  const WrapperKey wrapper = open.place.wrapper;
  if (known_.loads.into(wrapper)) return Cause::kLoadRank0Only;
  const WrapEvent* wrap = known_.wrappers.find(wrapper);
  const bool by_hand = wrap != nullptr ? !wrap->synchronizes : wrapper.wrapper < 0;
  if (by_hand) return Cause::kInitNoBroadcast;
  return known_.starts.differed(StatePoint::kWrap, wrapper, open.tensor, known_.names)
                 .value_or(true)
             ? Cause::kNone
             : cause_of_write(wrapper);
}

Cause DifferenceExplainer::cause_of_write(WrapperKey wrapper) const {
  const std::int32_t n = known_.wrappers.n_members(wrapper, known_.n_ranks);
  const bool loaded =
      known_.loads.into(wrapper) || !known_.loads.lone_readers(wrapper.attempt, n).empty();
  return loaded ? Cause::kLoadRank0Only : Cause::kParameterNudged;
}

Cause DifferenceExplainer::cause_of_step(const StepEvidence& evidence,
                                         ReplicaDifference& open,
                                         bool post_differs,
                                         bool used_differs) const {
  const WrapperKey wrapper = open.place.wrapper;
  const bool fell_behind = open.opts_differ && known_.forwards.is_even(wrapper);
  if (evidence.skips_differ || fell_behind)
    return evidence.scaled ? Cause::kScalerInfLocal : Cause::kNanSkipOneRank;
  // Before any rank skipped alone: the scalers' own rules differ.
  if (evidence.scales_differ) return Cause::kOptimizerOptionsDiffer;
  if (evidence.rates_differ) return Cause::kLrPerRank;
  if (post_differs || used_differs) return cause_of_gradients(evidence, open, post_differs);
  if (!evidence.used.known() || !evidence.rates.known()) return Cause::kNone;
  if (evidence.optimizer.differs())
    return wrapper.attempt > 0 ? Cause::kOptStateRootOnly : Cause::kNone;
  return cause_of_update(evidence, open);
}

// Everything that goes into the update was equal, what came out of it is not: a flipped bit is in one
// tensor of one rank, other arithmetic has other results everywhere. What lies between was written
// by the program, as by a layer that sets its parameters from its first batch, or comes of options of some tensors.
// Where all differ, options may be it as well, and optimizer-equal names them.
Cause DifferenceExplainer::cause_of_update(const StepEvidence& evidence,
                                           ReplicaDifference& open) const {
  const bool is_one = open.n_parted == 1 && open.finding.ranks.size() == 1;
  const WrapEvent* const wrap = known_.wrappers.find(open.place.wrapper);
  // The optimizer that has the moments may be inside of the one that was seen, and have a part of the parameters.
  if (is_one && wrap != nullptr && !wrap->synchronizes && !evidence.optimizer.known()) {
    open.finding.message +=
        "; if each rank steps with a part of the parameters, the one that steps with this did not "
        "send it";
    return Cause::kNone;
  }
  if (!is_one && !open.is_of_few) return Cause::kReplicaDrift;
  if (known_.steps.options_differ(open.place.wrapper)) return Cause::kOptimizerOptionsDiffer;
  return is_one ? Cause::kSdcAfterReduce : Cause::kParameterNudged;
}

Cause DifferenceExplainer::cause_of_gradients(const StepEvidence& evidence,
                                              ReplicaDifference& open,
                                              bool post_differs) const {
  const WrapperKey wrapper = open.place.wrapper;
  const WrapEvent* wrap = known_.wrappers.find(wrapper);
  if (wrap == nullptr || !wrap->synchronizes) return Cause::kNone;
  if (!evidence.wrapped_forward) return Cause::kBypassWrapper;
  if (!evidence.post.known()) {
    if (!evidence.is_local()) return Cause::kNone;
    open.finding.message += "; no backward of the step reduced gradients";
    return Cause::kLastMicroUnsynced;
  }
  // Members of one reduction are given one result.
  const bool one_of_many = open.finding.ranks.size() == 1 && wrap->n_ranks > 2;
  if (post_differs && known_.hooked.contains(wrapper)) {
    open.finding.message +=
        "; they come from the program's communication hook, which must return the same result on "
        "all ranks";
    return Cause::kNone;
  }
  if (post_differs) return one_of_many ? Cause::kSdcAfterReduce : Cause::kNone;
  // Whatever came after it, clipping included, such a contribution is what the ranks differ in first.
  if (evidence.is_late() || known_.forwards.any_inside(wrapper)) return Cause::kLastMicroUnsynced;
  return cause_of_changes(evidence, open);
}

Cause DifferenceExplainer::cause_of_changes(const StepEvidence& evidence,
                                            ReplicaDifference& open) const {
  const std::int32_t n = known_.wrappers.n_members(open.place.wrapper, known_.n_ranks);
  if (evidence.clippings.differ(n)) return Cause::kClipOneRank;
  bool any_untouched = false;
  bool any_scaled = false;
  bool any_other = false;
  for (const GradientsSeen& used : evidence.variants) {
    const GradientChange change =
        change_of(evidence.averaged, used, evidence.scale, open.tensor, known_.names);
    any_untouched = any_untouched || change == GradientChange::kNone;
    any_scaled = any_scaled || change == GradientChange::kScaled;
    any_other = any_other || change == GradientChange::kOther;
  }
  // A program may clip by itself, which no event says.
  if (any_untouched && any_scaled) return Cause::kClipOneRank;
  if (any_scaled || any_other) {
    open.finding.message +=
        any_untouched ? "; some ranks changed the averaged gradients before the step"
                      : "; each rank changed the averaged gradients differently before the step";
  }
  return Cause::kNone;
}

std::optional<std::size_t> DifferenceExplainer::index_of(LayoutId layout, NameId name) const {
  const std::span<const NameId> list = known_.names.layout(layout);
  const auto at = std::find(list.begin(), list.end(), name);
  if (at == list.end()) return std::nullopt;
  return static_cast<std::size_t>(at - list.begin());
}

}  // namespace lockstep::laws
