// Sums of doubles without any rounding.
#pragma once

#include <vector>

namespace lockstep {

/// A sum kept as doubles that do not overlap, smallest first: together they are the exact value.
///
/// Source: Shewchuk, "Adaptive Precision Floating-Point Arithmetic and Fast Robust Geometric
///     Predicates" (1997), Grow-Expansion.
/// Requires: finite terms; no partial sum beyond the largest double.
class ExactSum {
 public:
  void add(double term);

  /// Off by at most one part in 2^52 of the true value.
  double rounded() const;

  /// |sum - value|, as rounded().
  double distance_from(double value) const;

 private:
  std::vector<double> parts_;
};

}  // namespace lockstep
