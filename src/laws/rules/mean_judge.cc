#include "lockstep/laws/rules/detail/mean/mean_judge.h"

#include <algorithm>
#include <optional>

namespace lockstep::laws {

namespace {

/// Whether all tensors are the sum of what the ranks put in, where a mean was declared.
bool is_sum(const Judged& judged, const Weights& declared, bool exact) {
  const std::optional<Fit> found = fit(judged.wrong, declared, exact);
  return found && found->cause == Cause::kSumVsMean &&
         std::ranges::all_of(judged.right,
                             [](const OneReduction& one) { return one.reduced->l1 == 0.0; });
}

}  // namespace

void MeanJudge::judge(const Case& one, const GradientTravel& travel) {
  const OpenReduction& open = one.open;
  uneven_.on_reduction(one.alignment, open.locals);
  if (!open.sketched) return;
  const TravelManner manner = travel.manner_of(one.alignment.wrapper);
  std::optional<Declared> declared = declared_of(open, meant_by(open, one.names));
  const bool averages = manner.effect == HookEffect::kMean;
  if (!declared && averages && judge_micro_steps(one)) return;
  if (!declared) declared = plain_mean_if_alike(open);
  if (!declared) {
    missing_ = "batch events with the denominators of the micro-batches";
    return;
  }
  judge_against(one, {*declared, manner, travel.halves()});
}

void MeanJudge::judge_against(const Case& one, const Expected& expected) {
  const std::vector<Published>& published = one.open.published;
  std::vector<Judged> results;
  results.reserve(published.size());
  for (const Published& side : published) results.push_back(judge_published(one, side, expected));
  // Members of one reduction get one result: where some of them got the right one, it was lost
  // after the reduction.
  const bool was_right = std::any_of(
      results.begin(), results.end(), [](const Judged& side) { return side.wrong.empty(); });
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i].wrong.empty()) report(one, published[i], {expected, results[i], was_right});
  }
}

void MeanJudge::spare(const Expected& expected, Judged& judged) {
  const TravelManner& manner = expected.manner;
  if (judged.wrong.empty() || manner.effect == HookEffect::kMean || manner.wire) return;
  const bool rounds = manner.effect == HookEffect::kRounded;
  if (rounds && is_certain(judged, expected.declared.weights, exact_)) return;
  if (!rounds && is_sum(judged, expected.declared.weights, exact_)) ++n_sums_of_hooks_;
  n_checked_ -= std::ssize(judged.wrong);
  judged.wrong.clear();
  judged.tensors.clear();
  missing_ = rounds ? "reductions without a hook that compresses gradients"
                    : "reductions without a hook that computes something other than the mean";
}

Judged MeanJudge::judge_published(const Case& one,
                                  const Published& published,
                                  const Expected& expected) {
  const OpenReduction& open = one.open;
  const auto build = [&](std::size_t i) {
    const DType dtype = expected.manner.wire.value_or(open.dtype);
    OneReduction reduction{{}, &published.sketches[i], open.n_elems[i], dtype};
    reduction.locals.reserve(open.locals.size());
    for (const Local& local : open.locals) reduction.locals.push_back(open.sketch(local, i));
    return reduction;
  };
  const bool exact = exact_ && !expected.manner.wire;
  const auto accepts = [&](const OneReduction& reduction) {
    return expected.declared.accepts(reduction, exact);
  };
  Judged judged = judge_tensors(one, published, build, accepts);
  spare(expected, judged);
  return judged;
}

template <typename Build, typename Accepts>
Judged MeanJudge::judge_tensors(const Case& one,
                                const Published& published,
                                Build build,
                                Accepts accepts) {
  const std::span<const NameId> layout =
      one.names.layout(static_cast<LayoutId>(one.alignment.layout));
  Judged judged;
  for (std::size_t i = 0; i < layout.size(); ++i) {
    if (bit(published.undefined, i) ||
        one.wrappers.ignored(one.alignment.wrapper, layout[i], one.names))
      continue;
    OneReduction reduction = build(i);
    const bool unused = std::all_of(reduction.locals.begin(),
                                    reduction.locals.end(),
                                    [](const Sketch* local) { return local == nullptr; });
    if (unused) continue;  // Whatever .grad holds then did not come from this reduction.
    ++n_checked_;
    if (accepts(reduction)) {
      judged.right.push_back(std::move(reduction));
    } else {
      judged.wrong.push_back(std::move(reduction));
      judged.tensors.push_back(layout[i]);
    }
  }
  return judged;
}

bool MeanJudge::judge_micro_steps(const Case& one) {
  const AlignmentKey& alignment = one.alignment;
  const std::optional<MicroMean> mean = MicroMean::of(one.open, meant_by(one.open, one.names));
  if (!mean) return false;
  for (const Published& published : one.open.published) {
    const Judged judged = judge_tensors(
        one,
        published,
        [&](std::size_t i) { return mean->reduction(i, published.sketches[i]); },
        [&](const OneReduction& reduction) { return mean->accepts(reduction, exact_); });
    if (judged.wrong.empty()) continue;
    const std::optional<Fit> found = mean->explain(judged.wrong, exact_);
    for (const NameId tensor : judged.tensors) {
      if (reported_.contains({alignment.wrapper, tensor})) continue;
      Finding finding = wrong_mean(alignment, one.open, published, tensor, one.names);
      finding.declared = mean->declared().values();
      if (found) explain_mean(*found, mean->culprit(*found), finding);
      keep(alignment, tensor, mean->is_even(), std::move(finding));
    }
  }
  return true;
}

void MeanJudge::keep(const AlignmentKey& alignment, NameId tensor, bool is_even, Finding finding) {
  if (!is_even) {
    return uneven_.suspect({alignment.wrapper, tensor}, alignment.sync, std::move(finding));
  }
  reported_.insert({alignment.wrapper, tensor});
  findings_.push_back(std::move(finding));
}

void MeanJudge::report(const Case& one, const Published& published, const Broken& broken) {
  const Expected& expected = broken.expected;
  const Weights& declared = expected.declared.weights;
  const bool bounded = expected.manner.wire.has_value();
  const bool exact = exact_ && !bounded;
  const std::optional<Fit> found = fit(broken.judged.wrong, declared, exact);
  const bool only_some = hits_values(found, broken.judged, exact);
  for (const NameId tensor : broken.judged.tensors) {
    if (!reported_.insert({one.alignment.wrapper, tensor}).second) continue;
    Finding finding = wrong_mean(one.alignment, one.open, published, tensor, one.names);
    finding.declared = declared.values();
    if (found) explain_mean(*found, culprit_of(*found, one.open), finding);
    if (broken.was_right) {
      finding.message += "; other ranks received the correct one";
      finding.cause = Cause::kSdcAfterReduce;
    } else if (finding.cause == Cause::kNone && expected.halves && !bounded) {
      finding.message += "; gradients are sent as " + std::string(name_of(*expected.halves));
      finding.cause =
          expected.halves == DType::kBF16 ? Cause::kBf16HopRounding : Cause::kFp16SumOverflow;
    } else if (only_some) {
      finding.message += "; other tensors of this reduction are correct";
      finding.cause = Cause::kSdcBeforeReduce;
    }
    findings_.push_back(std::move(finding));
  }
}

std::string_view MeanJudge::meant_by(const OpenReduction& open, const NameTable& names) const {
  if (!declared_.empty()) return declared_;
  return names.text(open.batches_of(open.locals.front()).declared);
}

std::vector<Advice> MeanJudge::advice() const {
  if (n_sums_of_hooks_ == 0) return {};
  return {{"A-summed-gradients",
           std::to_string(n_sums_of_hooks_) +
               " reductions by a communication hook returned the sum of the ranks' gradients, "
               "where DDP would return their mean. Divide by the number of ranks, unless each loss "
               "was divided by it."}};
}

std::vector<Finding> MeanJudge::take_findings() {
  for (Finding& finding : uneven_.take()) findings_.push_back(std::move(finding));
  return std::move(findings_);
}

}  // namespace lockstep::laws
