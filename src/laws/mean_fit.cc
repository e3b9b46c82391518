#include "lockstep/laws/detail/mean_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "lockstep/base/text.h"
#include "lockstep/laws/rules/detail/precision.h"

namespace lockstep::laws {

namespace {

bool locals_finite(const OneReduction& reduction) {
  return std::all_of(reduction.locals.begin(), reduction.locals.end(), [](const Sketch* local) {
    return local == nullptr || is_finite(*local);
  });
}

std::string factor_text(double factor) {
  const bool up = std::abs(factor) >= 1.0;
  const double shown = up ? factor : 1.0 / factor;
  const double rounded = std::round(shown * 1e6) / 1e6;
  return (up ? "x " : "/ ") + exact(rounded);
}

/// "8:2", of a few ranks; nothing where the numbers would fill a page.
std::string ratio_text(std::span<const double> weights) {
  constexpr std::size_t kMostShown = 16;
  if (weights.size() > kMostShown) return "";
  std::string text;
  for (const double weight : weights) text += (text.empty() ? "" : ":") + exact(weight);
  return text;
}

bool all_explained(std::span<const OneReduction> reductions, const Weights& weights, bool exact) {
  return std::all_of(reductions.begin(), reductions.end(), [&](const OneReduction& reduction) {
    return explains(weights, reduction, exact);
  });
}

bool is_uniform(const Weights& weights) {
  return std::adjacent_find(weights.numerators.begin(),
                            weights.numerators.end(),
                            std::not_equal_to<>()) == weights.numerators.end();
}

/// The system of one equation a projection, in normal form: row a holds the products of rank a's
/// sums with every rank's, and with the reduced ones.
using Matrix = std::vector<std::vector<long double>>;

void add_equation(Matrix& rows, const OneReduction& reduction, std::size_t j) {
  const std::size_t n = rows.size();
  const auto sum_of = [&](std::size_t r) {
    return reduction.locals[r] == nullptr ? 0.0L
                                          : static_cast<long double>(reduction.locals[r]->sums[j]);
  };
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = 0; b < n; ++b) rows[a][b] += sum_of(a) * sum_of(b);
    rows[a][n] += sum_of(a) * reduction.reduced->sums[j];
  }
}

/// Gauss-Jordan with pivoting; false when the rows do not determine one solution.
bool eliminate(Matrix& rows) {
  const std::size_t n = rows.size();
  for (std::size_t pivot = 0; pivot < n; ++pivot) {
    const auto start = rows.begin() + static_cast<std::ptrdiff_t>(pivot);
    std::iter_swap(start, std::max_element(start, rows.end(), [&](const auto& a, const auto& b) {
                     return std::abs(a[pivot]) < std::abs(b[pivot]);
                   }));
    // Rank-deficient up to rounding: several sets of weights would do.
    const long double scale = std::abs(rows[0][0]) + 1e-300L;
    if (std::abs(rows[pivot][pivot]) < 1e-10L * scale) return false;
    for (std::size_t r = 0; r < n; ++r) {
      const long double factor = r == pivot ? 0.0L : rows[r][pivot] / rows[pivot][pivot];
      for (std::size_t c = pivot; c <= n; ++c) rows[r][c] -= factor * rows[pivot][c];
    }
  }
  return true;
}

/// One weight a rank that fits all sketches best, or nothing when they do not determine them.
std::optional<std::vector<double>> solve(std::span<const OneReduction> reductions, std::size_t n) {
  Matrix rows(n, std::vector<long double>(n + 1, 0.0L));
  for (const OneReduction& reduction : reductions) {
    for (std::size_t j = 0; j < reduction.reduced->sums.size(); ++j)
      add_equation(rows, reduction, j);
  }
  if (!eliminate(rows)) return std::nullopt;
  std::vector<double> weights(n);
  for (std::size_t r = 0; r < n; ++r) {
    // Six digits say all there is to say: 0.8, 0.2.
    weights[r] = std::round(static_cast<double>(rows[r][n] / rows[r][r]) * 1e6) / 1e6;
  }
  return weights;
}

/// Weights that were rounded to six digits explain to about that much.
bool roughly_explains(const std::vector<double>& weights, const OneReduction& reduction) {
  for (std::size_t j = 0; j < reduction.reduced->sums.size(); ++j) {
    double expected = 0.0;
    double total = 0.0;
    for (std::size_t r = 0; r < weights.size(); ++r) {
      if (reduction.locals[r] == nullptr) continue;
      expected += weights[r] * reduction.locals[r]->sums[j];
      total += reduction.locals[r]->l1;
    }
    if (std::abs(expected - reduction.reduced->sums[j]) > 1e-4 * total) return false;
  }
  return true;
}

std::optional<Fit> fit_weights(std::span<const OneReduction> reductions, const Weights& declared) {
  const std::size_t n = declared.numerators.size();
  constexpr std::size_t kMostRanksFitted = 64;
  if (n > kMostRanksFitted) return std::nullopt;
  const std::optional<std::vector<double>> solved = solve(reductions, n);
  // A rank cannot count less than not at all: such weights fit by chance.
  const bool fits =
      solved && std::none_of(solved->begin(), solved->end(), [](double w) { return w < 0.0; }) &&
      std::all_of(reductions.begin(), reductions.end(), [&](const OneReduction& reduction) {
        return roughly_explains(*solved, reduction);
      });
  if (!fits) return std::nullopt;
  const std::string ratio = ratio_text(*solved);
  return Fit{{*solved, 1.0},
             ratio.empty() ? "the ranks' weights differ from the declared ones"
                           : "the ranks' weights are " + ratio + ", but " +
                                 ratio_text(declared.values()) + " was declared",
             Cause::kNone,
             std::nullopt};
}

std::optional<Fit> fit_uniform(std::span<const OneReduction> reductions,
                               const Weights& declared,
                               bool exact) {
  const std::size_t n = declared.numerators.size();
  const auto count = static_cast<double>(n);
  const Weights mean = Weights::uniform(n, 1.0, count);
  if (all_explained(reductions, mean, exact)) {
    if (!is_uniform(declared)) {
      const std::string ratio = ratio_text(declared.numerators);
      return Fit{mean,
                 "every rank has the same weight (a mean of the ranks' means)" +
                     (ratio.empty() ? "" : ", but the declared weights are " + ratio),
                 Cause::kTokenWeightedMean,
                 std::nullopt};
    }
    const double factor = declared.denominator / (count * declared.numerators[0]);
    return Fit{mean,
               "it is the declared mean " + factor_text(factor),
               factor < 1.0 ? Cause::kDoubleAverage : Cause::kSumVsMean,
               std::nullopt};
  }
  const Weights sum = Weights::uniform(n, 1.0, 1.0);
  if (all_explained(reductions, sum, exact)) {
    return Fit{sum,
               "it is the sum over the ranks, off by the world size (x " + std::to_string(n) +
                   "): the division is missing",
               Cause::kSumVsMean,
               std::nullopt};
  }
  const Weights twice = Weights::uniform(n, 1.0, count * count);
  if (all_explained(reductions, twice, exact)) {
    return Fit{twice,
               "it was divided by the number of ranks twice (/ " + std::to_string(n) + ")",
               Cause::kDoubleAverage,
               std::nullopt};
  }
  return std::nullopt;
}

std::optional<Fit> fit_one_rank(std::span<const OneReduction> reductions,
                                const Weights& declared,
                                bool exact) {
  const std::size_t n = declared.numerators.size();
  constexpr std::size_t kMostRanksTried = 256;
  if (n > kMostRanksTried) return std::nullopt;
  for (const double times : {0.0, 2.0}) {
    for (std::size_t r = 0; r < n; ++r) {
      Weights weights = declared;
      weights.numerators[r] *= times;
      if (!all_explained(reductions, weights, exact)) continue;
      const std::string what = times == 0.0 ? " is missing" : " was counted twice";
      return Fit{
          weights, "one rank's contribution" + what, Cause::kNone, static_cast<std::int32_t>(r)};
    }
  }
  for (std::size_t r = 0; r < n; ++r) {
    Weights weights = Weights::uniform(n, 0.0, 1.0);
    weights.numerators[r] = 1.0;
    if (!all_explained(reductions, weights, exact)) continue;
    return Fit{weights,
               "it is one rank's own gradient: nothing was averaged",
               Cause::kNone,
               static_cast<std::int32_t>(r)};
  }
  return std::nullopt;
}

std::optional<Fit> fit_factor(std::span<const OneReduction> reductions,
                              const Weights& declared,
                              bool exact) {
  long double products = 0.0L;
  long double squares = 0.0L;
  const std::vector<double> values = declared.values();
  for (const OneReduction& reduction : reductions) {
    for (std::size_t j = 0; j < reduction.reduced->sums.size(); ++j) {
      long double expected = 0.0L;
      for (std::size_t r = 0; r < values.size(); ++r) {
        if (reduction.locals[r] != nullptr) expected += values[r] * reduction.locals[r]->sums[j];
      }
      products += expected * reduction.reduced->sums[j];
      squares += expected * expected;
    }
  }
  if (squares == 0.0L) return std::nullopt;
  const auto factor = static_cast<double>(products / squares);
  if (factor <= 0.0) return std::nullopt;
  Weights scaled = declared;
  for (double& numerator : scaled.numerators) numerator *= factor;
  if (!all_explained(reductions, scaled, exact)) return std::nullopt;
  return Fit{scaled, "it is the declared mean " + factor_text(factor), Cause::kNone, std::nullopt};
}

/// What the locals amount to under some weights, the denominator aside.
struct WeightedSum {
  double total = 0.0;  // Of |weight| * l1.
  std::array<double, 4> sums{};

  WeightedSum(const Weights& weights, const OneReduction& reduction) {
    for (std::size_t r = 0; r < reduction.locals.size(); ++r) {
      const Sketch* const local = reduction.locals[r];
      if (local == nullptr) continue;
      const double weight = weights.numerators[r];
      total += std::abs(weight) * local->l1;
      for (std::size_t j = 0; j < sums.size(); ++j) sums[j] += weight * local->sums[j];
    }
  }

  /// Then all locals are.
  bool is_finite() const { return laws::is_finite(Sketch{total, sums}); }
};

/// How far denominator * sums may lie apart; nothing where rounding has no bound.
std::optional<double> bound_of(double total,
                               const Weights& weights,
                               const OneReduction& reduction) {
  const Precision precision = precision_of(reduction.dtype);
  const auto n_operations = static_cast<double>(reduction.locals.size()) + 1;
  const auto n_elems = static_cast<double>(reduction.n_elems);
  const double rounded =
      (n_operations + static_cast<double>(reduction.n_added_before)) * precision.unit;
  if (rounded >= 1.0) return std::nullopt;
  return rounded / (1.0 - rounded) * total + 4 * n_elems * 0x1p-53 * total +
         weights.denominator * n_elems * n_operations * 0.5 * precision.tiny;
}

}  // namespace

std::vector<double> Weights::values() const {
  std::vector<double> result;
  for (const double numerator : numerators) result.push_back(numerator / denominator);
  return result;
}

Weights Weights::uniform(std::size_t n, double numerator, double denominator) {
  return {std::vector<double>(n, numerator), denominator};
}

bool explains(const Weights& weights, const OneReduction& reduction, bool exact) {
  const WeightedSum expected(weights, reduction);
  if (!expected.is_finite() && !locals_finite(reduction)) return true;
  if (!is_finite(*reduction.reduced)) return false;
  const std::optional<double> bound = exact ? 0.0 : bound_of(expected.total, weights, reduction);
  if (!bound) return true;
  for (std::size_t j = 0; j < expected.sums.size(); ++j) {
    const double reduced = weights.denominator * reduction.reduced->sums[j];
    if (std::abs(reduced - expected.sums[j]) > *bound) return false;
  }
  return true;
}

std::optional<Fit> fit(std::span<const OneReduction> reductions,
                       const Weights& declared,
                       bool exact) {
  for (const OneReduction& reduction : reductions) {
    if (!is_finite(*reduction.reduced)) {
      return Fit{{},
                 "it is not finite although every local gradient is finite",
                 Cause::kFp16SumOverflow,
                 std::nullopt};
    }
  }
  if (auto found = fit_uniform(reductions, declared, exact)) return found;
  if (auto found = fit_one_rank(reductions, declared, exact)) return found;
  if (auto found = fit_factor(reductions, declared, exact)) return found;
  return fit_weights(reductions, declared);
}

}  // namespace lockstep::laws
