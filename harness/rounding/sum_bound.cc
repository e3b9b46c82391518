#include "lockstep/harness/rounding/sum_bound.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "lockstep/harness/rounding/exact_sum.h"

namespace lockstep {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Of the widest type that a library may add in.
double wide_roundoff(const FloatFormat& format) {
  switch (format.type()) {
    case ElementType::kF64:
      return 0x1p-64;  // The x87's registers.
    case ElementType::kF32:
      return 0x1p-53;
    default:
      return 0x1p-24;
  }
}

/// What flushing one number to zero takes away at most.
double flushed(const FloatFormat& format) {
  switch (format.type()) {
    case ElementType::kF64:
      return 0x1p-1022;
    case ElementType::kF16:
      return 0.0;
    default:
      return 0x1p-126;
  }
}

/// (1 + x)^k - 1 of small x, without cancellation.
double compounded(double x, double k) { return std::expm1(k * std::log1p(x)); }

/// The relative part of the bound.
double relative_of(double n, const Arithmetic& arithmetic, bool scales) {
  const double u = (arithmetic.nearest ? 1.0 : 2.0) * arithmetic.format.unit_roundoff();
  const double w = (arithmetic.nearest ? 1.0 : 2.0) * wide_roundoff(arithmetic.format);
  const double v = u + w + u * w;
  const double scalings = (scales ? 4.0 : 0.0) + (arithmetic.converts ? 1.0 : 0.0);
  // The theorem is about rounding to nearest. Otherwise every contribution gains a factor per addition.
  const double additions = arithmetic.nearest ? (n - 1.0) * v : compounded(v, n - 1.0);
  const double scaled = compounded(v, scalings);
  // A result in a wide type is rounded to the narrow one even if nothing was added in the narrow one.
  return additions + scaled + additions * scaled + w;
}

double stretch_of(double n, const Combination& combination) {
  return std::max(1.0, std::abs(combination.factor(static_cast<std::size_t>(n))));
}

/// The absolute part: what flushing and small products take away.
double lost_of(double n, const Arithmetic& arithmetic, const Combination& combination) {
  const bool scales = combination.kind != ResultKind::kSum;
  double lost = (scales ? 4.0 : 2.0) * n * flushed(arithmetic.format);
  if (scales || arithmetic.converts) lost += 2.0 * n * arithmetic.format.smallest();
  return lost * stretch_of(n, combination);
}

/// Numbers near the end of f64 are scaled down, so that exact sums of them stay inside.
double shrinking_of(std::span<const double> contributions, double result) {
  double largest = std::abs(result);
  for (const double each : contributions) largest = std::max(largest, std::abs(each));
  return largest > 0x1p900 ? 0x1p-200 : 1.0;
}

/// May finite numbers whose absolute values add up to this have a sum beyond the largest?
bool may_exceed(double absolute, double relative, const FloatFormat& format) {
  return absolute * (1.0 + relative) * (1.0 + 0x1p-40) > format.largest();
}

/// The value of the lowest bit that is set. Requires: a finite number other than 0.
double lowest_bit(double value) {
  int exponent = 0;
  const double mantissa = std::frexp(std::abs(value), &exponent);
  const auto digits = static_cast<std::uint64_t>(std::ldexp(mantissa, 53));
  return std::ldexp(1.0, exponent - 53 + std::countr_zero(digits));
}

bool is_power_of_two(double value) {
  int exponent = 0;
  return std::abs(std::frexp(value, &exponent)) == 0.5;
}

/// Whether every partial sum of every order is a number of the type, and no scaling rounds.
bool rounds_nowhere(std::span<const double> contributions,
                    const Arithmetic& arithmetic,
                    const Combination& combination) {
  const double factor = combination.factor(contributions.size());
  // A mean in its own type keeps the general bound: whether it is scaled in one step is not known.
  const bool is_guess = arithmetic.converts || !arithmetic.nearest;
  const bool exact_factor =
      combination.kind == ResultKind::kSum || (is_guess && is_power_of_two(factor));
  if (!exact_factor) return false;
  double quantum = kInfinity;
  double absolute = 0.0;
  for (const double each : contributions) {
    if (each == 0.0) continue;
    if (arithmetic.converts && arithmetic.format.round(each) != each) return false;
    quantum = std::min(quantum, lowest_bit(each));
    absolute += std::abs(each);
  }
  if (absolute == 0.0) return true;
  const double stretched = std::min(1.0, std::abs(factor));
  const bool stays_normal =
      quantum * stretched >= std::max(flushed(arithmetic.format), arithmetic.format.smallest());
  // Strictly less: a sum of doubles that rounds comes no lower than that.
  return stays_normal && absolute < quantum / arithmetic.format.unit_roundoff();
}

/// Contributions that are not all finite.
bool is_possible_beside_infinities(std::span<const double> contributions,
                                   const Arithmetic& arithmetic,
                                   const Combination& combination,
                                   double result) {
  bool above = false;
  bool below = false;
  std::vector<double> finite;
  for (const double each : contributions) {
    if (std::isnan(each)) return std::isnan(result);
    above = above || each == kInfinity;
    below = below || each == -kInfinity;
    if (std::isfinite(each)) finite.push_back(each);
  }
  if (above && below) return std::isnan(result);
  if (std::isnan(result)) {
    return !finite.empty() && bound_of(finite, arithmetic, combination).may_overflow;
  }
  const bool expects_above = above == (combination.factor(contributions.size()) > 0.0);
  return result == (expects_above ? kInfinity : -kInfinity);
}

}  // namespace

double Combination::factor(std::size_t n) const {
  switch (kind) {
    case ResultKind::kSum:
      return 1.0;
    case ResultKind::kMean:
      return 1.0 / static_cast<double>(n);
    case ResultKind::kScaledSum:
      return given;
  }
  return 1.0;
}

SumBound bound_of(std::span<const double> contributions,
                  const Arithmetic& arithmetic,
                  const Combination& combination) {
  const auto n = static_cast<double>(contributions.size());
  const double shrinking = shrinking_of(contributions, 0.0);
  const double factor = combination.factor(contributions.size());
  ExactSum sum;
  double absolute = 0.0;
  for (const double each : contributions) {
    sum.add(each * shrinking);
    absolute += std::abs(each) * shrinking;
  }
  const bool scales = combination.kind != ResultKind::kSum;
  const double relative = relative_of(n, arithmetic, scales);
  const double slack = 1.0 + (n + 16.0) * 0x1p-52;
  const double lost = lost_of(n, arithmetic, combination);
  SumBound bound;
  bound.exact = sum.rounded() * factor / shrinking;
  bound.absolute = absolute * std::abs(factor) / shrinking;
  bound.may_overflow =
      may_exceed(absolute / shrinking * stretch_of(n, combination), relative, arithmetic.format);
  // Shrunk until the last step: the absolute values may add up beyond the largest double.
  const double rounded = relative * absolute * std::abs(factor) / shrinking;
  bound.general = (rounded + lost * (1.0 + relative)) * slack;
  bound.radius = rounds_nowhere(contributions, arithmetic, combination) ? 0.0 : bound.general;
  return bound;
}

double distance_from_exact(std::span<const double> contributions,
                           const Combination& combination,
                           double result) {
  if (!std::isfinite(result)) return kInfinity;
  const double shrinking = shrinking_of(contributions, result);
  const double shrunk = result * shrinking;
  ExactSum sum;
  if (combination.kind == ResultKind::kMean) {
    const auto n = static_cast<double>(contributions.size());
    for (const double each : contributions) sum.add(each * shrinking);
    sum.add_product(-n, shrunk);
    return std::abs(sum.rounded()) / n / shrinking;
  }
  const double factor = combination.factor(contributions.size());
  for (const double each : contributions) sum.add_product(factor, each * shrinking);
  return sum.distance_from(shrunk) / shrinking;
}

double radius_of_total(std::size_t n,
                       double n_elements,
                       double absolute,
                       const Arithmetic& arithmetic,
                       const Combination& combination) {
  const auto terms = static_cast<double>(n);
  const double relative = relative_of(terms, arithmetic, combination.kind != ResultKind::kSum);
  // Rounding to nearest, an overflow shows: the result is not finite. Truncation stays at the largest.
  const bool saturates =
      !arithmetic.nearest &&
      may_exceed(absolute * stretch_of(terms, combination), relative, arithmetic.format);
  if (saturates || !std::isfinite(absolute)) return kInfinity;
  const double lost = n_elements * lost_of(terms, arithmetic, combination) * (1.0 + relative);
  return (relative * absolute * std::abs(combination.factor(n)) + lost) * (1.0 + 0x1p-30);
}

bool is_possible(std::span<const double> contributions,
                 const Arithmetic& arithmetic,
                 const Combination& combination,
                 double result) {
  const bool finite =
      std::ranges::all_of(contributions, [](double each) { return std::isfinite(each); });
  if (!finite) return is_possible_beside_infinities(contributions, arithmetic, combination, result);
  const SumBound bound = bound_of(contributions, arithmetic, combination);
  if (bound.may_overflow && (!std::isfinite(result) || !arithmetic.nearest)) return true;
  return distance_from_exact(contributions, combination, result) <= bound.radius;
}

}  // namespace lockstep
