#include "lockstep/harness/rounding/sum_bound.h"

#include <cmath>
#include <limits>

#include "lockstep/harness/rounding/exact_sum.h"

namespace lockstep {

namespace {

double wide_roundoff(const FloatFormat& format) {
  switch (format.type()) {
    case ElementType::kF64:
      return 0.0;
    case ElementType::kF32:
      return 0x1p-53;
    default:
      return 0x1p-24;
  }
}

}  // namespace

SumBound bound_of(std::span<const double> contributions,
                  const FloatFormat& format,
                  ResultKind reduction) {
  const auto n = static_cast<double>(contributions.size());
  ExactSum sum;
  double absolute = 0.0;
  for (const double each : contributions) {
    sum.add(each);
    absolute += std::abs(each);
  }
  const double u = format.unit_roundoff();
  double roundings = n - 1.0;
  double underflow = 0.0;
  double divisor = 1.0;
  if (reduction == ResultKind::kMean) {
    // At most n + 1 factors per contribution; Higham, "Accuracy and Stability of Numerical
    // Algorithms" (2002), lemma 3.1, which needs (n + 1) u < 1.
    const double most = (n + 1.0) * u;
    roundings = most < 1.0 ? (n + 1.0) / (1.0 - most) : std::numeric_limits<double>::infinity();
    underflow = n * format.smallest();
    divisor = n;
  }
  SumBound bound;
  bound.exact = sum.rounded() / divisor;
  bound.absolute = absolute / divisor;
  const double relative = roundings * u + n * wide_roundoff(format);
  const double widest = absolute * (1.0 + relative) * (1.0 + (n + 16.0) * 0x1p-52);
  bound.may_overflow = widest > format.largest();
  bound.radius = (relative * bound.absolute + underflow) * (1.0 + (n + 16.0) * 0x1p-52);
  return bound;
}

double distance_from_exact(std::span<const double> contributions,
                           ResultKind reduction,
                           double result) {
  if (!std::isfinite(result)) return std::numeric_limits<double>::infinity();
  ExactSum sum;
  for (const double each : contributions) sum.add(each);
  if (reduction == ResultKind::kSum) return sum.distance_from(result);
  // n * result is exact as a sum of n terms.
  for (std::size_t i = 0; i < contributions.size(); ++i) sum.add(-result);
  return std::abs(sum.rounded()) / static_cast<double>(contributions.size());
}

}  // namespace lockstep
