// The averaging certificate: which weight each sample had in the gradient of every step, beside the
// weight that the objective gives it.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/harness/certify/fraction.h"
#include "lockstep/harness/certify/objective.h"

namespace lockstep {

/// In which way weights differ from those of the objective. `describe` has a sentence for each.
enum class Deviation : std::uint8_t {
  kNone,           ///< They are the objective's.
  kRanksDiffer,    ///< The ranks step with different gradients.
  kNeverUsed,      ///< Micro-steps are computed, and no step uses them.
  kLeftOver,       ///< Samples of an earlier window are still in the gradient.
  kMissing,        ///< Samples of the window are not in the gradient.
  kShortWindow,    ///< A window of fewer micro-steps is divided by the number of a full one.
  kIdleRanks,      ///< Divided by all ranks, also by those that have no samples in the window.
  kRanksAdded,     ///< Times the number of ranks.
  kRanksDivided,   ///< Divided by the number of ranks once more.
  kMicrosAdded,    ///< Times the number of micro-steps.
  kMicrosDivided,  ///< Divided by the number of micro-steps once more.
  kEitherAdded,    ///< Times a number that is both that of ranks and of micro-steps.
  kEitherDivided,  ///< Divided by such a number once more.
  kLossSummed,     ///< Times the number of samples or tokens: a sum that nothing divides.
  kScaled,         ///< Times another number.
  kMeanOfRanks,    ///< The mean of the ranks' means.
  kMeanOfMicros,   ///< The mean of the micro-steps' means.
  kMeanOfBatches,  ///< The mean of the means of each rank's micro-steps.
  kCountsSamples,  ///< Weights count samples where the objective counts tokens.
  kCountsTokens,   ///< Weights count tokens where the objective counts samples.
  kGrowsPerMicro,  ///< What is accumulated is multiplied again in each micro-step.
  kUneven,         ///< In none of these ways.
  kNotAFraction,   ///< Something rounds by more than exact fractions allow.
};

/// What a deviation is, and what repairs it.
struct DeviationInfo {
  std::string_view id;        ///< "mean-of-micro-steps"
  std::string_view sentence;  ///< What the loop does.
  std::string_view remedy;
};

const DeviationInfo& describe(Deviation deviation);

/// Samples of one rank and micro-step that have the same weight: a row of the table.
struct WeightRow {
  std::int32_t rank = 0;
  std::int64_t micro = 0;  ///< Within the window, from 0.
  std::int64_t n_samples = 0;
  std::int64_t n_tokens = 0;
  Fraction weight{};  ///< Of one sample; of one token, if the objective counts tokens.
  Fraction asked{};   ///< What the objective gives it.
  /// Where this micro-step's reduction was posted, as "train.cc:40"; empty where not known.
  std::string site{};

  bool is_fraction = true;  ///< False: the weight is none, and `weight` and `asked` mean nothing.

  bool is_right() const { return is_fraction && weight == asked; }

  friend bool operator==(const WeightRow&, const WeightRow&) = default;
};

/// What one optimizer step used, or micro-steps that none used.
struct WindowWeights {
  std::int64_t epoch = 0;
  std::int64_t step = 0;  ///< The optimizer step; not stepped: the last one before, -1 = none.
  bool stepped = true;    ///< False: no step used it.
  std::vector<std::int32_t> unused_ranks{};  ///< Ranks that computed micro-steps and did not step.
  /// Ranks that stepped with another gradient than the first one's.
  std::vector<std::int32_t> other_ranks{};
  bool left_over = false;         ///< Samples of earlier windows have weights, too.
  std::vector<WeightRow> rows{};  ///< By rank and micro-step.
  /// If the n-th sample of these rows (each of its tokens) had the gradient n, from 1: what the step
  /// would use, and what one process would. Absent where it does not fit.
  std::optional<Fraction> used{};
  std::optional<Fraction> one_process{};

  bool is_right() const;
  std::int64_t n_micros() const;  ///< Of the rank with the most.
  std::int64_t n_ranks() const;   ///< That have samples in it.
};

/// Where weights first differ.
struct DeviationPlace {
  std::size_t window = 0;  ///< Index in Certificate::windows.
  std::size_t row = 0;     ///< Index in its rows.
};

/// One way in which weights are wrong, where it is first seen.
struct Fault {
  Deviation deviation = Deviation::kNone;
  /// The first wrong row; where weights differ among samples, the first with the largest.
  DeviationPlace place{};
  /// Weight over asked weight where that is the same for all samples of the window; otherwise the
  /// largest of these over the smallest.
  Fraction factor{1};
  DeviationPlace smallest{};  ///< The row with the smallest, where they are not the same.
  /// Sum of all weights over the sum of the asked ones, where they are not the same.
  Fraction total{1};
};

/// The answer to: is each step's gradient that of the objective over all samples of its window?
///
///   if (!certificate.certified()) std::cout << certificate;
struct Certificate {
  std::string title{};
  std::int32_t n_ranks = 0;
  Objective objective{};
  std::vector<WindowWeights> windows{};
  std::vector<Fault> faults{};           ///< One per deviation, in the order of their windows.
  std::vector<std::string> set_aside{};  ///< What of the job does not act on the probe.

  /// Every weight of every window is the objective's, as exact fractions.
  bool certified() const { return faults.empty(); }

  /// The first fault; Deviation::kNone and a factor of 1 where there is none.
  Fault fault() const { return faults.empty() ? Fault{} : faults.front(); }
};

/// The certificate for a terminal: verdict, factor, place, then every weight beside the asked one.
/// Windows with equal weights are one table.
std::string render_text(const Certificate& certificate);
std::ostream& operator<<(std::ostream& out, const Certificate& certificate);

}  // namespace lockstep
