// In which way weights differ: each way predicts what is the same in all rows, and rows are exact.
#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <utility>

#include "lockstep/harness/certify/detail/weigh.h"

namespace lockstep {
namespace {

using Group = std::pair<std::int64_t, std::int64_t>;

/// Which samples are averaged before the others come in.
Group by_rank(const WeightRow& row) { return {row.rank, 0}; }

Group by_micro(const WeightRow& row) { return {0, row.micro}; }

Group by_batch(const WeightRow& row) { return {row.rank, row.micro}; }

Fraction ratio(const WeightRow& row) { return row.weight / row.asked; }

/// The weights of a wrong window whose rows all have an asked weight.
class WeightPattern {
 public:
  WeightPattern(const WindowWeights& window, bool by_token)
      : window_(window), by_token_(by_token) {}

  bool is_uniform() const {
    return all_equal([](const WeightRow& row) { return ratio(row); });
  }

  /// Every group's mean counts the same.
  bool is_mean_of(Group (*group)(const WeightRow&)) const {
    std::map<Group, std::int64_t> units;
    for (const WeightRow& row : window_.rows) units[group(row)] += units_of(row);
    return all_equal(
        [&](const WeightRow& row) { return row.weight * Fraction(units[group(row)]); });
  }

  /// Every sample counts the same, or each of its tokens does, whichever is not meant.
  bool counts_the_other() const {
    return all_equal([&](const WeightRow& row) {
      const Fraction tokens_per_sample(row.n_tokens, row.n_samples);
      if (by_token_) return row.weight * tokens_per_sample;
      return tokens_per_sample.is_zero() ? Fraction() : row.weight / tokens_per_sample;
    });
  }

  /// Each micro-step's weights are the next one's times a number that is always the same.
  bool grows_per_micro() const {
    std::map<std::int64_t, Fraction> by_index;
    for (const WeightRow& row : window_.rows) {
      const auto [place, is_new] = by_index.emplace(row.micro, ratio(row));
      if (!is_new && place->second != ratio(row)) return false;
    }
    if (by_index.size() < 2) return false;
    const Fraction growth = by_index.begin()->second / std::next(by_index.begin())->second;
    for (auto at = by_index.begin(); std::next(at) != by_index.end(); ++at) {
      if (at->second / std::next(at)->second != growth) return false;
    }
    return true;
  }

  std::int64_t units() const {
    std::int64_t n = 0;
    for (const WeightRow& row : window_.rows) n += units_of(row);
    return n;
  }

  std::optional<Fraction> total() const {
    std::optional<Fraction> used = Fraction();
    std::optional<Fraction> asked = Fraction();
    for (const WeightRow& row : window_.rows) {
      if (used) used = sum_if_it_fits(*used, row.weight * Fraction(units_of(row)));
      if (asked) asked = sum_if_it_fits(*asked, row.asked * Fraction(units_of(row)));
    }
    if (!used || !asked) return std::nullopt;
    return *used / *asked;
  }

 private:
  std::int64_t units_of(const WeightRow& row) const {
    return by_token_ ? row.n_tokens : row.n_samples;
  }

  template <typename F>
  bool all_equal(F of) const {
    return std::all_of(window_.rows.begin(), window_.rows.end(), [&](const WeightRow& row) {
      return of(row) == of(window_.rows.front());
    });
  }

  const WindowWeights& window_;
  bool by_token_;
};

/// The number of micro-steps of a full window.
std::int64_t full_window(const Certificate& certificate) {
  std::int64_t most = 0;
  for (const WindowWeights& window : certificate.windows) most = std::max(most, window.n_micros());
  return most;
}

/// All weights are off by `factor`.
Deviation name_uniform(const Certificate& certificate,
                       const WindowWeights& window,
                       const Fraction& factor) {
  const Fraction ranks(certificate.n_ranks);
  const Fraction micros(window.n_micros());
  const std::int64_t full = full_window(certificate);
  if (window.n_micros() < full && factor == Fraction(window.n_micros(), full)) {
    return Deviation::kShortWindow;
  }
  if (window.n_ranks() < certificate.n_ranks &&
      factor == Fraction(window.n_ranks(), certificate.n_ranks)) {
    return Deviation::kIdleRanks;
  }
  const bool by_ranks = factor == ranks;
  const bool by_micros = factor == micros;
  if (by_ranks && by_micros) return Deviation::kEitherAdded;
  if (by_ranks) return Deviation::kRanksAdded;
  if (by_micros) return Deviation::kMicrosAdded;
  const bool over_ranks = factor * ranks == Fraction(1);
  const bool over_micros = factor * micros == Fraction(1);
  if (over_ranks && over_micros) return Deviation::kEitherDivided;
  if (over_ranks) return Deviation::kRanksDivided;
  if (over_micros) return Deviation::kMicrosDivided;
  const Fraction units(WeightPattern(window, certificate.objective.counts_tokens()).units());
  const bool is_sum = certificate.objective.kind == ObjectiveKind::kSum;
  if (!is_sum && factor > Fraction(1) && (factor == units || factor * ranks == units))
    return Deviation::kLossSummed;
  return Deviation::kScaled;
}

Deviation name_uneven(const Certificate& certificate, const WeightPattern& pattern) {
  if (pattern.is_mean_of(by_rank)) return Deviation::kMeanOfRanks;
  if (pattern.is_mean_of(by_micro)) return Deviation::kMeanOfMicros;
  if (pattern.is_mean_of(by_batch)) return Deviation::kMeanOfBatches;
  if (pattern.grows_per_micro()) return Deviation::kGrowsPerMicro;
  if (pattern.counts_the_other()) {
    return certificate.objective.counts_tokens() ? Deviation::kCountsSamples
                                                 : Deviation::kCountsTokens;
  }
  return Deviation::kUneven;
}

/// The first row of which this holds; the first one otherwise.
template <typename F>
std::size_t first_row(const WindowWeights& window, F holds) {
  const auto found = std::find_if(window.rows.begin(), window.rows.end(), holds);
  return found == window.rows.end() ? 0 : static_cast<std::size_t>(found - window.rows.begin());
}

bool is_missing(const WeightRow& row) { return row.weight.is_zero() && !row.asked.is_zero(); }

/// What needs no arithmetic: gradients that are not there, or not what the other ranks have.
Deviation name_absent(const WindowWeights& window) {
  if (!window.stepped) return Deviation::kNeverUsed;
  if (!window.other_ranks.empty()) return Deviation::kRanksDiffer;
  if (window.left_over) return Deviation::kLeftOver;
  if (std::any_of(window.rows.begin(), window.rows.end(), is_missing)) return Deviation::kMissing;
  return Deviation::kNone;
}

/// Compares weights that are all there.
void name_weights(const Certificate& certificate, const WindowWeights& window, Fault& fault) {
  // Samples that should not count and do not say nothing.
  WindowWeights counted = window;
  std::erase_if(counted.rows, [](const WeightRow& row) { return row.asked.is_zero(); });
  const bool counts_others =
      std::any_of(window.rows.begin(), window.rows.end(), [](const WeightRow& row) {
        return row.asked.is_zero() && !row.weight.is_zero();
      });
  if (counts_others || counted.rows.empty()) {
    fault.deviation = Deviation::kUneven;
    return;
  }
  const WeightPattern pattern(counted, certificate.objective.counts_tokens());
  if (pattern.is_uniform()) {
    fault.factor = ratio(counted.rows.front());
    fault.deviation = name_uniform(certificate, counted, fault.factor);
    return;
  }
  const auto less = [](const WeightRow& a, const WeightRow& b) { return ratio(a) < ratio(b); };
  const WeightRow& least = *std::min_element(counted.rows.begin(), counted.rows.end(), less);
  // The first of the largest: max_element keeps the first one.
  const WeightRow& most = *std::max_element(counted.rows.begin(), counted.rows.end(), less);
  fault.place.row = first_row(window, [&](const WeightRow& row) { return row == most; });
  fault.smallest = {fault.place.window,
                    first_row(window, [&](const WeightRow& row) { return row == least; })};
  if (least.weight > Fraction()) fault.factor = ratio(most) / ratio(least);
  fault.total = pattern.total().value_or(Fraction(1));
  fault.deviation = name_uneven(certificate, pattern);
}

/// Requires: the window is wrong.
Fault fault_of(const Certificate& certificate, std::size_t index) {
  const WindowWeights& window = certificate.windows[index];
  Fault fault{.deviation = name_absent(window), .place = {index, 0}};
  const bool missing = fault.deviation == Deviation::kMissing;
  if (missing) fault.factor = Fraction();
  fault.place.row = first_row(
      window, [&](const WeightRow& row) { return missing ? is_missing(row) : !row.is_right(); });
  if (fault.deviation == Deviation::kNone) name_weights(certificate, window, fault);
  return fault;
}

/// By enumerator.
constexpr std::array<DeviationInfo, 22> kInfos = {{
    {"none", "The weights are the objective's.", ""},
    {"ranks-differ",
     "The ranks step with different gradients.",
     "Average all gradients over the ranks before each step, including those of the last "
     "micro-step."},
    {"never-used",
     "Micro-steps are computed, but no step uses their gradients.",
     "Step after the last, shorter window of an epoch too, or drop its batches in the loader."},
    {"left-over",
     "Samples of an earlier window are still in the gradient.",
     "Clear the gradients after each step, before the next window's first backward."},
    {"missing",
     "Samples of the window are not in the gradient.",
     "Accumulate every micro-step's gradient, and reduce after the last one."},
    {"short-window",
     "Every window is divided by the number of micro-steps of a full window, but this one has "
     "fewer.",
     "Divide by the number of micro-steps (samples, tokens) in the window."},
    {"idle-ranks",
     "The sum over the ranks is divided by the number of all ranks, including those without "
     "samples here.",
     "Divide by the number of ranks that still have inputs: use a join context with "
     "divide_by_initial_world_size off."},
    {"ranks-added",
     "The ranks' gradients are summed instead of averaged, or multiplied by the number of ranks "
     "after averaging.",
     "Divide by the number of ranks once: DDP does, an all-reduce with SUM does not."},
    {"ranks-divided",
     "The mean over the ranks is divided by the number of ranks once more.",
     "Multiply the loss by the number of ranks, or do not divide what DDP averages."},
    {"micro-steps-added",
     "The micro-steps' gradients are summed, and nothing divides by their number.",
     "Divide each loss by the window's number of micro-steps (samples, tokens)."},
    {"micro-steps-divided",
     "The window is divided by its number of micro-steps once more.",
     "Divide by the number of micro-steps in one place only."},
    {"added",
     "A sum was used where a mean was expected, over ranks or over micro-steps (both counts are "
     "equal, so the factor does not say which).",
     "Divide each loss by the window's micro-steps, and let DDP divide by the ranks."},
    {"divided",
     "A division was made twice, by the ranks or by the micro-steps (both counts are equal, so the "
     "factor does not say which).",
     "Divide by each of them in one place only."},
    {"loss-summed",
     "The loss is a sum, and nothing divides by the number of samples or tokens.",
     "Divide by the number over all ranks and micro-steps of the window."},
    {"scaled", "Every weight is off by the same factor.", "Look for a factor of this value."},
    {"mean-of-ranks",
     "Every rank's mean has the same weight, however many samples or tokens it covers.",
     "Compute loss.sum() * world_size / total_count, with total_count over all ranks."},
    {"mean-of-micro-steps",
     "Every micro-step's mean has the same weight, however many samples or tokens it covers.",
     "Sum each micro-step's loss, and divide by the count over the whole window."},
    {"mean-of-batches",
     "The mean of every rank's micro-step has the same weight, however many samples or tokens it "
     "covers.",
     "Compute loss.sum() * world_size / total_count, with total_count over all ranks and "
     "micro-steps of the window."},
    {"counts-samples",
     "Every sample has the same weight, however many tokens it has.",
     "Weight each sample by its tokens, or certify the objective sample-mean."},
    {"counts-tokens",
     "Every sample is weighted by its number of tokens.",
     "Average over the tokens of a sample first, or certify the objective token-mean."},
    {"grows-per-micro-step",
     "The accumulated gradient is multiplied again in each micro-step.",
     "Reduce once, after the window's last backward, and accumulate under no_sync before it."},
    {"uneven", "Weights differ between samples in a way that has no name.", "See the table."},
}};

constexpr DeviationInfo kNotAFractionInfo = {
    "not-a-fraction",
    "A weight is not a fraction of small numbers: something rounds more coarsely than 64-bit "
    "floats.",
    "Certify the job without what rounds gradients: compression, 16-bit or 32-bit casts."};

}  // namespace

const DeviationInfo& describe(Deviation deviation) {
  if (deviation == Deviation::kNotAFraction) return kNotAFractionInfo;
  return kInfos[static_cast<std::size_t>(deviation)];
}

void name_faults(Certificate& certificate) {
  if (!certificate.faults.empty()) return;
  for (std::size_t i = 0; i < certificate.windows.size(); ++i) {
    if (certificate.windows[i].is_right()) continue;
    const Fault fault = fault_of(certificate, i);
    const bool known =
        std::any_of(certificate.faults.begin(), certificate.faults.end(), [&](const Fault& other) {
          return other.deviation == fault.deviation;
        });
    if (!known) certificate.faults.push_back(fault);
  }
}

}  // namespace lockstep
