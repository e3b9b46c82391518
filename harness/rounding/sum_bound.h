// How far any order of adding can be from the exact result.
//
// Every order of n-1 additions computes a sum of x_i (1 + e_i) where each e_i collects the roundings on
// x_i's way to the root of the tree of additions. Jeannerod and Rump, "Improved error bounds for inner
// products in floating-point arithmetic" (SIAM J. Matrix Anal. Appl. 34, 2013): whatever the tree,
//
//   | computed - exact | <= (n-1) u sum |x_i|                u = unit roundoff, no restriction on n
//
// Additions have no error from underflow: the sum of two subnormal numbers is a number. Three
// things are added to it:
//
//   - a library may add in a wider type w and round once at the end: n u_w sum |x_i|, u_w = 2^-24 for
//     16-bit numbers and 2^-53 for f32
//   - a mean divides, before the additions or after them, or multiplies by a rounded 1/n: each x_i
//     gains at most two factors (1 + e), and each quotient may be off by half the smallest number
//   - this bound is computed in doubles itself, with fewer than n + 16 roundings
#pragma once

#include <cstdint>
#include <span>

#include "lockstep/formats/float_format.h"

namespace lockstep {

/// What was made of the contributions.
enum class ResultKind : std::uint8_t { kSum, kMean };

/// An interval that holds the result of every order.
struct SumBound {
  double exact = 0.0;     ///< The result without rounding; off by one part in 2^52.
  double radius = 0.0;    ///< No order is further from it, unless one of its sums overflows.
  double absolute = 0.0;  ///< The sum of the contributions' absolute values (mean: divided).
  /// Some order may have a sum that the format does not hold; a mean may divide only afterwards.
  bool may_overflow = false;
};

/// Requires: finite contributions, at least one.
SumBound bound_of(std::span<const double> contributions,
                  const FloatFormat& format,
                  ResultKind reduction);

/// How far `result` is from the exact result of these contributions; infinite for what is not finite.
double distance_from_exact(std::span<const double> contributions,
                           ResultKind reduction,
                           double result);

}  // namespace lockstep
