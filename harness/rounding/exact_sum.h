// Sums of doubles without any rounding.
#pragma once

#include <vector>

namespace lockstep {

/// A sum kept as doubles that do not overlap, smallest first: together they are the exact value.
///
/// Source: Shewchuk, "Adaptive Precision Floating-Point Arithmetic and Fast Robust Geometric
///     Predicates" (1997), Grow-Expansion and Two-Product.
/// Requires: finite terms; no partial sum beyond the largest double.
class ExactSum {
 public:
  void add(double term);

  /// Adds a * b. Exact where the product's last bit is no smaller than the smallest double.
  void add_product(double a, double b);

  /// Off by at most one part in 2^52 of the true value.
  double rounded() const;

  /// |sum - value|, as rounded().
  double distance_from(double value) const;

 private:
  std::vector<double> parts_;
};

}  // namespace lockstep
