// How far any order of adding can be from the exact result.
//
// Every order of n-1 additions computes a sum of x_i (1 + e_i) where each e_i collects the roundings on
// x_i's way to the root of the tree of additions. Jeannerod and Rump, "Improved error bounds for inner
// products in floating-point arithmetic" (SIAM J. Matrix Anal. Appl. 34, 2013): whatever the tree,
//
//   | computed - exact | <= (n-1) v sum |x_i|              v = u, the unit roundoff; no restriction on n
//
// The interval is wider than that by what libraries may do besides:
//
//   - add in a wider type w and round to the narrow one later, once or often: v = u + w + u w
//   - scale, before the additions, between their levels or after them, twice at most, each time by a
//     factor that is rounded itself: (1 + (n-1) v)(1 + v)^4 - 1 in place of (n-1) v. The middle of a tree
//     is no worse: (1 + (k-1) v)(1 + (m-1) v) <= 1 + (k m - 1) v. A fused multiply-add rounds less often.
//     Each product may also be off by half the smallest number
//   - flush subnormal numbers to zero: each of 2n operands and sums, and 2n products, by less than the
//     smallest normal number. f16 is not flushed: no processor that we know adds f16 so
//
// This bound is computed in f64 itself, with fewer than n + 16 roundings. Where nothing can round, it is 0: if all
// contributions are multiples of a power of two q, and their absolute values add up to less than 2^p q, p
// being the type's digits, then every partial sum is a number of the type.
#pragma once

#include <cstdint>
#include <span>

#include "lockstep/formats/float_format.h"

namespace lockstep {

/// What was made of the contributions.
enum class ResultKind : std::uint8_t { kSum, kMean, kScaledSum };

struct Combination {
  ResultKind kind = ResultKind::kSum;
  double given = 1.0;  ///< kScaledSum: what each contribution, or the sum, was multiplied by.

  /// What the exact sum of n contributions is multiplied by.
  double factor(std::size_t n) const;
};

/// How a library computes.
struct Arithmetic {
  FloatFormat format;
  bool converts = false;  ///< Contributions are of a wider type, and rounded to `format` first.
  bool nearest = true;    ///< False: operations give either neighbour, as truncation does.
};

/// An interval that holds the result of every order.
struct SumBound {
  double exact = 0.0;     ///< The result without rounding; off by one part in 2^52.
  double radius = 0.0;    ///< No order is further from it, unless one of its sums overflows.
  double general = 0.0;   ///< The radius if sums round: the same, unless nothing can.
  double absolute = 0.0;  ///< The sum of the contributions' absolute values, times the factor.
  /// Some order may have a sum that the format does not hold; a mean may divide only afterwards.
  bool may_overflow = false;
};

/// Requires: finite contributions, at least one; a finite factor other than 0.
SumBound bound_of(std::span<const double> contributions,
                  const Arithmetic& arithmetic,
                  const Combination& combination);

/// How far `result` is from the exact result of these contributions; infinite for what is not finite.
double distance_from_exact(std::span<const double> contributions,
                           const Combination& combination,
                           double result);

/// How far the total of n_elements results can be from the exact total, where the absolute values of all
/// their contributions add up to `absolute`, if none of them overflowed.
double radius_of_total(std::size_t n,
                       double n_elements,
                       double absolute,
                       const Arithmetic& arithmetic,
                       const Combination& combination);

/// Whether some order may give `result`: it lies inside of its interval, or a sum overflowed.
/// Contributions that are not finite leave one result: a NaN where one is a NaN or both infinities are
/// there, else the infinity, or a NaN where finite ones may overflow to the other.
bool is_possible(std::span<const double> contributions,
                 const Arithmetic& arithmetic,
                 const Combination& combination,
                 double result);

}  // namespace lockstep
