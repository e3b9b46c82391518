#include "lockstep/laws/rules/detail/calls/call_judge.h"

#include <algorithm>

#include "lockstep/laws/report.h"

namespace lockstep::laws {

namespace {

using calls::Disagreement;
using calls::GroupKey;
using calls::GroupState;
using calls::Slot;
using calls::Variant;

/// What most ranks called instead of the odd call.
const Variant& norm_of(const Disagreement& found, const Variant& odd) {
  const Variant* norm = nullptr;
  for (const Variant& variant : found.slot.variants) {
    if (&variant == &odd) continue;
    const bool differs = !matches(odd.signature, variant.signature);
    if (differs && (norm == nullptr || variant.ranks.size() > norm->ranks.size())) norm = &variant;
  }
  // The smallest side may differ by its site alone: then its peers of equal signature are odd too.
  return norm == nullptr ? found.slot.variants.front() : *norm;
}

/// "rank 2 calls all_reduce at train.cc:12 once more than the others".
std::string extra_text(const Variant& odd) {
  return ranks_text(odd.ranks) + (odd.ranks.size() == 1 ? " calls " : " call ") +
         std::string(name_of(odd.signature.op)) + " at " + odd.signature.site.text() +
         " once more than the others";
}

/// "rank 2 skips all_reduce at train.cc:12, which it makes at other times".
std::string skipped_text(const Variant& odd, const Variant& norm) {
  const bool one = odd.ranks.size() == 1;
  return ranks_text(odd.ranks) + (one ? " skips " : " skip ") +
         std::string(name_of(norm.signature.op)) + " at " + norm.signature.site.text() +
         (one ? ", which it makes" : ", which they make") + " at other times";
}

/// "rank 0 called barrier at save.py:12 where ranks 1-3 called all_reduce(f32[4], sum)".
std::string calls_text(const Variant& odd, const Variant& norm) {
  return ranks_text(odd.ranks) + " called " + signature_text(odd.signature) + " where " +
         ranks_text(norm.ranks) + " called " + signature_text(norm.signature);
}

/// Rank 0 alone in what a save or a log does, while the others train.
bool is_aside(const Variant& variant) {
  return variant.ranks.size() == 1 && variant.ranks.front() == Rank{0} &&
         variant.signature.op != CollectiveOp::kAllReduce && variant.signature.site.known();
}

struct Sides {
  const Variant* alone;  ///< The odd one, if it is rank 0 that evaluates.
  const Variant& odd;
  const Variant& norm;
};

Sides sides_of(const GroupState& group, const Disagreement& found) {
  const Variant* const alone = calls::evaluating_alone(found.slot);
  const Variant& odd = alone != nullptr ? *alone : calls::offender(group, found.slot);
  const Variant& norm = norm_of(found, odd);
  // Of two ranks either may be the odd one.
  const bool swapped = alone == nullptr && odd.ranks.size() == norm.ranks.size() &&
                       calls::is_skipped(group, norm, odd);
  return swapped ? Sides{nullptr, norm, odd} : Sides{alone, odd, norm};
}

Finding describe(const GroupKey& key,
                 const Disagreement& found,
                 const Variant& odd,
                 const Variant& norm) {
  Finding finding;
  finding.attempt = key.first;
  finding.group = key.second;
  finding.event = "collective";
  finding.seq = found.seq;
  if (norm.step >= 0) finding.step = norm.step;
  finding.ranks = odd.ranks;
  finding.site = odd.signature.site.text();
  finding.other_site = norm.signature.site.text();
  return finding;
}

/// Of what a rank does under join for those that have inputs left.
constexpr std::string_view kJoinScope = "ddp.join";

std::optional<Finding> beside_join_at(const GroupKey& key, const Disagreement& found) {
  const auto in_scope = [&](std::string_view scope) {
    return std::ranges::find_if(found.slot.variants, [scope](const Variant& variant) {
      return variant.signature.site.known() && variant.signature.site.scope == scope;
    });
  };
  const auto shadow = in_scope(kJoinScope);
  const auto own = in_scope("");
  if (shadow == found.slot.variants.end() || own == found.slot.variants.end()) return std::nullopt;
  Finding finding = describe(key, found, *own, *shadow);
  finding.field = "site";
  finding.message = ranks_text(own->ranks) + (own->ranks.size() == 1 ? " calls " : " call ") +
                    std::string(name_of(own->signature.op)) + " at " + own->signature.site.text() +
                    " inside join, but " + ranks_text(shadow->ranks) +
                    (shadow->ranks.size() == 1
                         ? " has no inputs left and only shadows the wrapper's collectives"
                         : " have no inputs left and only shadow the wrapper's collectives");
  finding.cause = Cause::kJoinExtraCall;
  return finding;
}

}  // namespace

std::optional<Finding> CallJudge::judge(const GroupKey& key, const GroupState& group) const {
  if (std::optional<Finding> finding = beside_join(key, group)) return finding;
  std::optional<Finding> finding = extra_before_mismatch(key, group);
  if (!finding && group.mismatch) finding = mismatch(key, group, *group.mismatch);
  if (!finding) finding = shifted_sites(key, group);
  if (finding) blame_dropped_forward(*finding);
  return finding;
}

std::optional<Finding> CallJudge::beside_join(const GroupKey& key, const GroupState& group) {
  for (const Disagreement& found : group.site_differences) {
    if (std::optional<Finding> finding = beside_join_at(key, found)) return finding;
  }
  return group.mismatch ? beside_join_at(key, *group.mismatch) : std::nullopt;
}

Finding CallJudge::mismatch(const GroupKey& key,
                            const GroupState& group,
                            const Disagreement& found) const {
  const auto [alone, odd, norm] = sides_of(group, found);
  Finding finding = describe(key, found, odd, norm);
  const SignatureField field = first_difference(odd.signature, norm.signature);
  finding.field = name_of(field);
  finding.ranks.clear();
  for (const Variant& variant : found.slot.variants) {
    if (!matches(odd.signature, variant.signature)) continue;
    finding.ranks.insert(finding.ranks.end(), variant.ranks.begin(), variant.ranks.end());
  }
  std::sort(finding.ranks.begin(), finding.ranks.end());
  finding.message = "mismatched collectives: " + calls_text(odd, norm) + "; field '" +
                    finding.field + "' differs";
  if (alone != nullptr) {
    finding.message += "; rank 0 evaluates through the wrapper here, and the other ranks do not";
    finding.cause = Cause::kRank0OnlyCollective;
    return finding;
  }
  if (calls::is_skipped(group, odd, norm) && !calls::went_further(found)) {
    finding.message = skipped_text(odd, norm) + ": " + finding.message;
    finding.cause = Cause::kCallSkipped;
    return finding;
  }
  if (calls::permutes(found, odd.ranks.front(), norm.ranks.front())) {
    finding.message += "; both make the same " + std::to_string(1 + found.loop.size()) +
                       " calls in that loop, in different orders: it probably iterates over a "
                       "dictionary or set that each rank orders differently";
    finding.cause = Cause::kOrderSwap;
    return finding;
  }
  finding.cause = !known_.decides && calls::went_further(found)
                      ? Cause::kCallSetDiffers
                      : cause_of(group, found.slot, odd, field);
  if (field != SignatureField::kOp && calls::is_extra(group, odd, norm)) {
    finding.message = extra_text(odd) + ": " + finding.message;
    // What else differs follows from it.
    const bool aside = cause_of_extra(odd, norm) == Cause::kRank0OnlyCollective;
    if (aside) finding.cause = Cause::kRank0OnlyCollective;
  }
  return finding;
}

void CallJudge::blame_dropped_forward(Finding& finding) const {
  const std::optional<std::int32_t> step = known_.forwards.first_dropped(finding.attempt);
  if (!step || (finding.step && *step > *finding.step)) return;
  finding.cause = Cause::kNanSkipOneRank;
  finding.message += "; " + known_.forwards.dropped_text(finding.attempt);
}

std::optional<Finding> CallJudge::extra_before_mismatch(const GroupKey& key,
                                                        const GroupState& group) const {
  if (!group.mismatch) return std::nullopt;
  for (const Disagreement& found : group.site_differences) {
    if (std::optional<Finding> finding = skipped_at(key, group, found)) {
      finding->message +=
          "; call " + std::to_string(group.mismatch->seq) + " is the first mismatch";
      return finding;
    }
    const Variant& odd = calls::offender(group, found.slot);
    for (const Variant& norm : found.slot.variants) {
      if (&norm == &odd || !calls::is_extra(group, odd, norm)) continue;
      Finding finding = describe(key, found, odd, norm);
      finding.field = "site";
      finding.message = extra_text(odd) +
                        ", which shifts all later calls: " + calls_text(odd, norm) + "; call " +
                        std::to_string(group.mismatch->seq) + " is the first mismatch";
      finding.cause = cause_of_extra(odd, norm);
      return finding;
    }
  }
  return std::nullopt;
}

std::optional<Finding> CallJudge::skipped_at(const GroupKey& key,
                                             const GroupState& group,
                                             const Disagreement& found) {
  for (const Variant& odd : found.slot.variants) {
    for (const Variant& norm : found.slot.variants) {
      const bool is_odd = odd.ranks.size() <= norm.ranks.size();
      const bool is_shifted = group.mismatch || group.find(odd.ranks.front())->n_calls <
                                                    group.find(norm.ranks.front())->n_calls;
      if (!is_odd || !is_shifted || !calls::is_skipped(group, odd, norm)) continue;
      Finding finding = describe(key, found, odd, norm);
      finding.field = "site";
      finding.message =
          skipped_text(odd, norm) + ", which shifts all later calls: " + calls_text(odd, norm);
      finding.cause = Cause::kCallSkipped;
      return finding;
    }
  }
  return std::nullopt;
}

std::optional<Finding> CallJudge::shifted_sites(const GroupKey& key,
                                                const GroupState& group) const {
  if (known_.died.contains(key.first)) return std::nullopt;  // A death explains unequal counts.
  for (const Disagreement& found : group.site_differences) {
    if (std::optional<Finding> finding = skipped_at(key, group, found)) return finding;
    for (const Variant& odd : found.slot.variants) {
      if (const Variant* norm = calls::shifted_against(group, found.slot, odd)) {
        Finding finding = describe(key, found, odd, *norm);
        finding.field = "site";
        finding.message = "an extra call shifts all later calls: " + calls_text(odd, *norm);
        if (odd.ranks == std::vector<Rank>{Rank{0}}) finding.cause = Cause::kRank0OnlyCollective;
        return finding;
      }
    }
  }
  return std::nullopt;
}

Cause CallJudge::cause_of_extra(const Variant& odd, const Variant& other) const {
  const bool odd_is_zero = odd.ranks.size() == 1 && odd.ranks.front() == Rank{0};
  if (odd_is_zero || (!known_.decides && is_aside(other))) return Cause::kRank0OnlyCollective;
  // A call of these ranks alone. Where ranks decide things, a decision may be the cause (law 20).
  return known_.decides ? Cause::kNone : Cause::kCodeSkew;
}

Cause CallJudge::cause_of(const GroupState& group,
                          const Slot& slot,
                          const Variant& odd,
                          SignatureField field) const {
  if (field == SignatureField::kLayout) return Cause::kBucketOrderDiffers;
  if (field == SignatureField::kCount || field == SignatureField::kSplits) {
    return Cause::kShapeMismatchCompletes;
  }
  if (field != SignatureField::kOp) return Cause::kDtypeRedopRootMismatch;
  const Variant& other =
      &odd == &slot.variants.front() ? slot.variants.back() : slot.variants.front();
  const bool extra = calls::surplus(group, slot, odd) > 0;
  if (!extra && calls::makes(group, odd, other.signature) &&
      calls::makes(group, other, odd.signature)) {
    return Cause::kOrderSwap;
  }
  return extra ? cause_of_extra(odd, other) : Cause::kNone;
}

}  // namespace lockstep::laws
