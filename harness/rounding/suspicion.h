// What a result that no order gives looks like: which single mistake would have given it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/harness/rounding/sum_bound.h"

namespace lockstep {

/// Holds mistakes against every element that no order gives, and keeps those that explain all of them: one
/// rank's contribution left out, or added twice, or all of it multiplied by one factor.
///
/// A mistake explains an element if the result lies in the interval of all orders after it. So what is said
/// is that it fits, not that it happened.
class Suspicion {
 public:
  Suspicion(std::int32_t n, const Arithmetic& arithmetic, const Combination& combination);

  /// Requires: n finite contributions.
  void add(std::span<const double> contributions, double result);

  /// "as if the contribution of rank 2 had been left out"; empty: nothing fits, or more than one rank.
  std::string text() const;

 private:
  bool fits(std::span<const double> contributions,
            std::int32_t rank,
            double times,
            double result) const;
  void narrow_factor(std::span<const double> contributions, double result);
  std::string factor_text() const;

  std::int32_t n_;
  Arithmetic arithmetic_;
  Combination combination_;
  std::vector<std::int32_t> left_out_;  ///< Ranks.
  std::vector<std::int32_t> added_twice_;
  // Every factor in [low, high] explains all elements.
  double low_;
  double high_;
  std::int64_t n_informative_ = 0;  ///< Elements that tell something of the factor.
  std::int64_t n_elements_ = 0;
};

}  // namespace lockstep
