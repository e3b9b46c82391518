// What a reduction is meant to be: a weight for each rank, or for each micro-step of each rank; and
// what one that the program makes by itself must be in any case.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/detail/mean_fit.h"
#include "lockstep/laws/finding.h"
#include "lockstep/laws/rules/detail/contributions.h"
#include "lockstep/laws/rules/detail/mean/open_reduction.h"

namespace lockstep::laws {

/// The weights that were meant; with accumulation also K times them, since both conventions
/// (dividing the loss by K or not) are in use.
struct Declared {
  Weights weights;
  std::vector<double> accepted_factors = {1.0};

  bool accepts(const OneReduction& one, bool exact) const;
};

/// Local gradients are S_r / d_r with S_r the gradient of the rank's summed loss; the declared one is
/// sum(S_r) / total. So rank r's weight is d_r / total. `meant`: "sample-mean", "token-mean", "sum";
/// anything else, and batches that do not say what they divided by, ask for the plain mean. Nothing
/// where one weight per rank may not do: micro-steps have different denominators. Where they have the
/// same ones on all ranks, only tokens are counted so closely.
std::optional<Declared> declared_of(const OpenReduction& open, std::string_view meant);

/// The plain mean, where all ranks have divided by the same numbers, micro-step by micro-step: whatever
/// each of these is to count, no rank counts more than another.
std::optional<Declared> plain_mean_if_alike(const OpenReduction& open);

/// The backward passes that one reduction is made of, rank after rank, and what each is to count.
///
/// A micro-step contributes the gradient of its summed loss divided by its own denominator d, so the
/// declared mean over T items gives it the weight d / T; with K micro-steps on every rank also K
/// times that, since some programs divide each loss by K, too. Ranks may have different numbers of
/// micro-steps: a micro-step's weight does not depend on its rank.
class MicroMean {
 public:
  /// Nothing where contributions are not known one by one, or do not add up to what was reduced.
  /// `meant`: "sample-mean", "token-mean" or "sum".
  static std::optional<MicroMean> of(const OpenReduction& open, std::string_view meant);

  /// Tensor i, with `reduced` as what came out.
  OneReduction reduction(std::size_t i, const Sketch& reduced) const;
  bool accepts(const OneReduction& one, bool exact) const;
  /// What explains all of `wrong`: every micro-step counts the same; sums; one of them is lost.
  std::optional<Fit> explain(const std::vector<OneReduction>& wrong, bool exact) const;

  const Weights& declared() const { return declared_; }

  /// Every rank has the same number of micro-steps.
  bool is_even() const { return per_rank_ > 0.0; }

  /// The rank whose micro-step it says is lost.
  std::optional<Rank> culprit(const Fit& found) const;

 private:
  struct Step {
    std::int32_t rank = 0;
    std::int32_t number = 0;
    const KeptGradients* added = nullptr;
    double n_of_rank = 1.0;  ///< Micro-steps of its rank.
  };

  static const Sketch* sketch(const KeptGradients& added, std::size_t i);
  void add_steps(std::int32_t rank, std::span<const KeptGradients> added);
  /// False: its contributions are not known one by one.
  bool add_rank(const Local& local, std::int64_t n_batches);
  std::optional<Fit> lost_step(const std::vector<OneReduction>& wrong, bool exact) const;
  KeptGradients whole_of(const Local& local) const;
  Weights of_ranks() const;
  bool adds_up(const Local& local, const MicroSteps& micro) const;
  /// "rank 0: 0.2, 0.3; rank 1: 0.1, 0.4": at most sixteen.
  std::string declared_text() const;

  const OpenReduction* open_ = nullptr;
  std::vector<Step> steps_;
  Weights declared_;
  double n_ranks_ = 1.0;
  double per_rank_ = 1.0;            // Micro-steps; 0: ranks have different numbers of them.
  std::deque<KeptGradients> whole_;  // Of ranks with a single one.
};

/// Keeps the wrong mean of a window in which ranks had different numbers of micro-steps as a
/// suspicion until the next reduction. It is wrong if the window ended there on every rank: where one
/// adds to what was reduced, the ranks' reductions have lost their partners, which other laws report.
class UnevenWindows {
 public:
  using Place = std::pair<WrapperKey, NameId>;  ///< A wrapper's tensor.

  /// Requires: before suspect() of the same reduction.
  void on_reduction(const AlignmentKey& at, std::span<const Local> locals) {
    if (suspicions_.empty() || std::none_of(locals.begin(), locals.end(), adds_to_earlier)) return;
    std::erase_if(suspicions_, [&](const auto& entry) {
      return entry.first.first == at.wrapper && entry.second.sync == at.sync - 1;
    });
  }

  void suspect(const Place& place, std::int32_t sync, Finding finding) {
    suspicions_.try_emplace(place, Suspicion{sync, std::move(finding)});
  }

  std::vector<Finding> take() {
    std::vector<Finding> findings;
    for (auto& [place, suspicion] : suspicions_) findings.push_back(std::move(suspicion.finding));
    suspicions_.clear();
    return findings;
  }

 private:
  struct Suspicion {
    std::int32_t sync = -1;
    Finding finding{};
  };

  static bool adds_to_earlier(const Local& local) { return local.adds_to_earlier; }

  std::map<Place, Suspicion> suspicions_;
};

/// The ranks' gradients went into a step as the program itself had reduced them (no_sync, and calls
/// of its own).
///
/// What it meant is its own affair: it may weigh ranks, scale, clip. Some things are certain: the
/// mean is right; a mean in which one rank is missing, twice or alone is wrong; and so is a step in
/// which some tensors are means and others sums. Where every rank's only backward starts from the mean
/// of a loss's terms, a mean that is divided by the number of ranks once more is wrong: a sum of
/// terms might have been divided by their number, which may be any. A sum of all tensors is right if
/// every loss was divided by the number of ranks: where no event shows that, it gets advice. So does a mean of
/// losses that were divided by it. So does a sum of
/// such means that was divided by another whole number, or weighs ranks otherwise than by their terms. One tensor that is as many
/// times what the others are as there are ranks was summed twice, or is not divided. Gradients that were not cleared are named if the
/// step uses what the step before has used, plus the mean.
class OwnMeans {
 public:
  explicit OwnMeans(bool exact) : exact_(exact) {}

  void judge(const OwnReduction& own, const Wrappers& wrappers, const NameTable& names);

  std::int64_t n_checked() const { return n_checked_; }

  std::vector<Finding> take_findings() { return std::move(findings_); }

  /// "A-summed-gradients", "A-divided-again", "A-other-divisor", "A-weighed-ranks".
  std::vector<Advice> advice() const;

 private:
  /// Its tensors, as reductions of the sums of what each rank added.
  struct Judged {
    std::vector<Sketch> sums;  ///< Of all ranks, tensor after tensor.
    std::vector<OneReduction> right;
    std::vector<OneReduction> wrong;
    std::vector<NameId> tensors;  ///< Of the wrong ones,
    std::vector<NameId> means;    ///< and of the right ones.
  };

  /// `on_top`: of what the step before has used.
  Judged compare(const OwnReduction& own,
                 bool on_top,
                 const Wrappers& wrappers,
                 const NameTable& names) const;
  void judge_uncleared(const OwnReduction& own, const Wrappers& wrappers, const NameTable& names);
  void judge_apart(const OwnReduction& own, const Judged& judged, const NameTable& names);
  void note_mean(const OwnReduction& own);
  void note_sum(const OwnReduction& own);
  void note_weights(const OwnReduction& own, const std::vector<double>& weights);
  void report(const OwnReduction& own,
              const Judged& judged,
              const Fit& found,
              const NameTable& names);

  bool exact_;
  std::int64_t n_checked_ = 0;
  std::int64_t n_judged_ = 0;         // Steps,
  std::int64_t n_summed_ = 0;         // and of these, which used sums,
  std::int64_t n_divided_again_ = 0;  // or means of losses that were divided by the ranks.
  std::int32_t first_summed_ = 0;
  std::int64_t n_of_means_ = 0;  // Steps that made something else of losses that are means,
  std::int64_t n_weighed_ = 0;   // and of these, where ranks count differently.
  std::pair<std::int32_t, std::vector<double>> first_weighed_;              // Its step and weights.
  std::map<std::pair<std::size_t, std::int64_t>, std::int64_t> n_divided_;  // By ranks and divisor.
  std::vector<Finding> findings_;
  std::set<std::pair<WrapperKey, NameId>> reported_;
};

}  // namespace lockstep::laws
