#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/laws/rules/detail/declared_mean.h"

namespace lockstep::laws {

namespace {

constexpr double kMillion = 1e6;
constexpr std::size_t kMostShown = 16;  // Weights.

std::string counted_steps(std::int64_t n) {
  return std::to_string(n) + (n == 1 ? " step" : " steps");
}

bool is_known(const KeptGradients& one) { return one.sketches.size() == one.digests.size(); }

bool is_known(const OwnReduction& own) {
  return std::all_of(own.shares.begin(), own.shares.end(), [](const OwnReduction::Share& share) {
    return is_known(share.used) &&
           std::all_of(share.added.begin(), share.added.end(), [](const KeptGradients& one) {
             return is_known(one);
           });
  });
}

/// Gradients were cleared on every rank before the first contribution.
bool is_from_nothing(const OwnReduction& own) {
  return std::all_of(own.shares.begin(), own.shares.end(), [](const OwnReduction::Share& share) {
    return share.from_nothing;
  });
}

/// Where they were not cleared it is known what they held.
bool is_from_known(const OwnReduction& own) {
  return std::all_of(own.shares.begin(), own.shares.end(), [](const OwnReduction::Share& share) {
    const KeptGradients& before = share.used_before;
    return share.from_nothing ||
           (is_known(before) && before.digests.size() == share.used.digests.size());
  });
}

/// That did not clear theirs; none, if no rank did.
std::vector<Rank> uncleared_ranks(const OwnReduction& own) {
  std::vector<Rank> ranks;
  for (const OwnReduction::Share& share : own.shares) {
    if (!share.from_nothing) ranks.push_back(Rank{share.rank});
  }
  if (ranks.size() == own.shares.size()) ranks.clear();
  return ranks;
}

/// What a rank has added to tensor i, and what the step before has used of it unless it was cleared. That is in
/// `place` there.
SketchSum sum_on_top(const OwnReduction::Share& share, std::size_t i, std::size_t place) {
  SketchSum sum = OwnReduction::sum_of(share, i);
  const KeptGradients& before = share.used_before;
  if (share.from_nothing) return sum;
  if (sum.n_terms > 0 && !bit(before.undefined, place)) {
    sum.add(before.sketches[place], before.digests[place]);
  }
  return sum;
}

/// A tensor, its place in what was used, and whether what the step before has used is part of it where it was
/// not cleared.
struct OwnTensor {
  std::size_t tensor = 0;
  std::size_t used = 0;
  bool on_top = false;
};

/// What came of the tensor in a step, and what each rank has put in. It points into `sums`.
OneReduction reduction_of(const OwnReduction& own, const OwnTensor& at, std::vector<Sketch>& sums) {
  const Sketch& used = own.shares.front().used.sketches[at.used];
  OneReduction one{{}, &used, own.n_elems[at.tensor], own.dtype};
  for (const OwnReduction::Share& share : own.shares) {
    const SketchSum sum =
        at.on_top ? sum_on_top(share, at.tensor, at.used) : OwnReduction::sum_of(share, at.tensor);
    one.n_added_before = std::max<std::int64_t>(one.n_added_before, sum.n_terms);
    sums.push_back(sum.sum);
    one.locals.push_back(sum.n_terms == 0 ? nullptr : &sums.back());
  }
  return one;
}

/// About a tensor of the step.
Finding finding_of(const OwnReduction& own, std::string_view tensor) {
  Finding finding;
  finding.attempt = own.wrapper.attempt;
  finding.event = "grad.used";
  finding.tensor = tensor;
  finding.step = own.step;
  return finding;
}

/// Each rank's gradient is that of a mean: no divisor is left that the program may have put off.
bool are_means(const OwnReduction& own) {
  return std::all_of(own.shares.begin(), own.shares.end(), [](const OwnReduction::Share& share) {
    return share.of_mean;
  });
}

/// Each loss was divided by the number of ranks, beside the number of its terms. As many backward passes may be what
/// the program divides by.
bool are_divided(const OwnReduction& own) {
  const std::size_t n = own.shares.size();
  return std::all_of(own.shares.begin(), own.shares.end(), [n](const OwnReduction::Share& share) {
    return share.divisor == static_cast<double>(n) && share.added.size() != n;
  });
}

bool are_equal(const std::vector<double>& weights) {
  return std::adjacent_find(weights.begin(), weights.end(), std::not_equal_to<>()) == weights.end();
}

/// The whole number that the sum over `n` ranks was divided by, if it is none that averaging explains: not
/// 1, and no multiple of `n`, which a scale of the loss adds to a mean. Large numbers all lie near a whole one.
std::optional<std::int64_t> odd_divisor(const std::vector<double>& weights, std::size_t n) {
  constexpr double kNearlyWhole = 1e-5;
  constexpr double kLargest = 1000.0;
  if (weights.front() <= 0.0 || !are_equal(weights)) return std::nullopt;
  const double divisor = 1.0 / weights.front();
  const double whole = std::round(divisor);
  if (whole < 2.0 || whole > kLargest || std::abs(divisor - whole) > kNearlyWhole * divisor) {
    return std::nullopt;
  }
  const auto number = static_cast<std::int64_t>(whole);
  return number % static_cast<std::int64_t>(n) == 0 ? std::nullopt : std::optional(number);
}

/// Whether ranks count as their losses have terms, or it is not known how many these have.
bool follow_terms(const std::vector<double>& weights, const OwnReduction& own) {
  constexpr double kNearlyAlike = 1e-4;  // Weights have six digits.
  const double per_term = weights.front() / own.shares.front().n_terms;
  for (std::size_t r = 0; r < weights.size(); ++r) {
    const double n_terms = own.shares[r].n_terms;
    if (n_terms <= 0.0) return true;
    if (std::abs(weights[r] - per_term * n_terms) > kNearlyAlike * weights[r]) return false;
  }
  return true;
}

/// What the ranks' sum of a tensor was multiplied by, if all ranks count alike.
std::optional<double> factor_of(const OneReduction& one, bool exact) {
  const std::size_t n = one.locals.size();
  const std::optional<Fit> found =
      fit(std::span(&one, 1), Weights::uniform(n, 1.0, static_cast<double>(n)), exact);
  if (!found || found->weights.numerators.size() != n) return std::nullopt;
  const std::vector<double> weights = found->weights.values();
  return are_equal(weights) ? std::optional(weights.front()) : std::nullopt;
}

}  // namespace

OwnMeans::Judged OwnMeans::compare(const OwnReduction& own,
                                   bool on_top,
                                   const Wrappers& wrappers,
                                   const NameTable& names) const {
  const std::size_t n = own.shares.size();
  const Weights mean = Weights::uniform(n, 1.0, static_cast<double>(n));
  const std::span<const NameId> tensors = names.layout(own.layout);
  const std::vector<NameId> reduced = own.reduced(names);
  Judged judged;
  judged.sums.reserve(tensors.size() * n);  // Reductions point into it.
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!Wrappers::contains(reduced, tensors[i])) continue;
    if (wrappers.ignored(own.wrapper, tensors[i], names)) continue;
    const std::size_t place = *own.used_place(i, names);
    OneReduction one = reduction_of(own, {i, place, on_top}, judged.sums);
    const bool right = explains(mean, one, exact_);
    (right ? judged.means : judged.tensors).push_back(tensors[i]);
    (right ? judged.right : judged.wrong).push_back(std::move(one));
  }
  return judged;
}

void OwnMeans::judge(const OwnReduction& own, const Wrappers& wrappers, const NameTable& names) {
  if (!is_known(own) || own.shares.size() < 2) return;
  if (!is_from_nothing(own)) return judge_uncleared(own, wrappers, names);
  const Judged judged = compare(own, false, wrappers, names);
  n_checked_ += std::ssize(judged.right);
  ++n_judged_;
  if (judged.wrong.empty()) return note_mean(own);
  const std::size_t n = own.shares.size();
  const std::optional<Fit> found =
      fit(judged.wrong, Weights::uniform(n, 1.0, static_cast<double>(n)), exact_);
  if (!found) return judge_apart(own, judged, names);
  const bool any_right = std::any_of(judged.right.begin(),
                                     judged.right.end(),
                                     [](const OneReduction& one) { return one.reduced->l1 > 0.0; });
  const bool summed = found->cause == Cause::kSumVsMean;
  const bool twice = found->cause == Cause::kDoubleAverage && !any_right && are_means(own);
  if (summed && !any_right) {
    note_sum(own);
  } else if (summed || twice || found->culprit) {
    report(own, judged, *found, names);
  } else if (!any_right && are_means(own) && found->weights.numerators.size() == n) {
    note_weights(own, found->weights.values());
  }
}

void OwnMeans::note_mean(const OwnReduction& own) {
  if (are_divided(own)) ++n_divided_again_;
}

void OwnMeans::note_sum(const OwnReduction& own) {
  if (are_divided(own)) return;
  if (n_summed_++ == 0) first_summed_ = own.step;
}

void OwnMeans::note_weights(const OwnReduction& own, const std::vector<double>& weights) {
  ++n_of_means_;
  if (const auto divisor = odd_divisor(weights, weights.size())) {
    ++n_divided_[{weights.size(), *divisor}];
  } else if (!are_equal(weights) && !follow_terms(weights, own)) {
    if (n_weighed_++ == 0) first_weighed_ = {own.step, weights};
  }
}

/// No set of weights explains all tensors: perhaps one each does.
void OwnMeans::judge_apart(const OwnReduction& own, const Judged& judged, const NameTable& names) {
  const auto n = static_cast<double>(own.shares.size());
  std::map<std::int64_t, std::vector<NameId>> by_factor;  // In millionths of a mean.
  for (std::size_t i = 0; i < judged.wrong.size(); ++i) {
    const std::optional<double> factor = factor_of(judged.wrong[i], exact_);
    if (factor) by_factor[std::llround(*factor * n * kMillion)].push_back(judged.tensors[i]);
  }
  if (by_factor.empty()) return;
  const std::int64_t n_ranks = std::ssize(own.shares);
  const std::int64_t least = by_factor.begin()->first;
  // Both are rounded, the least by up to half of a millionth, which counts n times.
  const auto again = by_factor.lower_bound((least - 1) * n_ranks);
  if (least <= 0 || again == by_factor.end() || again->first > (least + 1) * n_ranks) return;
  for (const NameId tensor : again->second) {
    if (!reported_.insert({own.wrapper, tensor}).second) continue;
    Finding finding = finding_of(own, names.text(tensor));
    finding.message = fmt::format(
        "the manually reduced gradient is {} times too large (there are {} ranks) compared with "
        "other tensors of this step: it was reduced twice, or not divided as they were",
        own.shares.size(),
        own.shares.size());
    findings_.push_back(std::move(finding));
  }
}

// A program may clear them in a way that no event shows: then the mean alone is what is used.
void OwnMeans::judge_uncleared(const OwnReduction& own,
                               const Wrappers& wrappers,
                               const NameTable& names) {
  if (!is_from_known(own)) return;
  const Judged judged = compare(own, true, wrappers, names);
  n_checked_ += std::ssize(judged.right);
  if (!judged.wrong.empty() || !compare(own, false, wrappers, names).right.empty()) return;
  for (const NameId tensor : judged.means) {
    if (!reported_.insert({own.wrapper, tensor}).second) continue;
    Finding finding = finding_of(own, names.text(tensor));
    finding.message =
        "the manually averaged gradient still contains the gradient that the previous step used: "
        "nothing cleared it";
    finding.ranks = uncleared_ranks(own);
    finding.cause = Cause::kZeroGradForgotten;
    findings_.push_back(std::move(finding));
  }
}

void OwnMeans::report(const OwnReduction& own,
                      const Judged& judged,
                      const Fit& found,
                      const NameTable& names) {
  const std::size_t n = own.shares.size();
  for (const NameId tensor : judged.tensors) {
    if (!reported_.insert({own.wrapper, tensor}).second) continue;
    Finding finding = finding_of(own, names.text(tensor));
    finding.weights = found.weights.values();
    finding.declared = Weights::uniform(n, 1.0, static_cast<double>(n)).values();
    finding.cause = found.cause;
    finding.message =
        "the manually reduced gradient is not the mean over the ranks: " + found.message;
    if (found.culprit) {
      const Rank rank{own.shares[static_cast<std::size_t>(*found.culprit)].rank};
      finding.message += " (rank " + std::to_string(to_int(rank)) + ")";
      finding.ranks = {rank};
    } else if (found.cause == Cause::kDoubleAverage) {
      finding.message += "; each rank's loss is a mean";
    } else {
      finding.message += "; other tensors of this step are means";
    }
    findings_.push_back(std::move(finding));
  }
}

std::vector<Advice> OwnMeans::advice() const {
  std::vector<Advice> advice;
  if (n_summed_ > 0) {
    advice.push_back(
        {"A-summed-gradients",
         fmt::format(
             "{} from step {} on used the sum of the ranks' gradients, where DDP would use their "
             "mean. Divide by the number of ranks, unless each loss was divided by it.",
             counted_steps(n_summed_),
             first_summed_)});
  }
  if (n_divided_again_ >= 2 && n_divided_again_ == n_judged_) {
    advice.push_back({"A-divided-again",
                      counted_steps(n_divided_again_) +
                          " divided by the number of ranks twice: in the losses, "
                          "and in the mean of the gradients. Divide once."});
  }
  for (const auto& [division, n_steps] : n_divided_) {
    if (2 * n_steps <= n_of_means_)
      continue;  // A factor that changes is near a whole number by chance.
    const auto& [n_ranks, divisor] = division;
    advice.push_back({"A-other-divisor",
                      fmt::format("{} used the sum of {} ranks' gradients divided by {}. For a "
                                  "mean over the ranks, divide by {}.",
                                  counted_steps(n_steps),
                                  n_ranks,
                                  divisor,
                                  n_ranks)});
  }
  if (2 * n_weighed_ > n_of_means_) {
    const std::span<const double> weights = first_weighed_.second;
    advice.push_back(
        {"A-weighed-ranks",
         fmt::format("{} weighted the ranks unequally, and not in proportion to their loss terms "
                     "(weights in step {}: {:.4g}{}). Average over ranks or over terms, unless "
                     "these weights are intended.",
                     counted_steps(n_weighed_),
                     first_weighed_.first,
                     fmt::join(weights.first(std::min(weights.size(), kMostShown)), ", "),
                     weights.size() > kMostShown ? ", ..." : "")});
  }
  return advice;
}

}  // namespace lockstep::laws
