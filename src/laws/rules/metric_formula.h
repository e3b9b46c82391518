// Metrics other than means over samples: what one process reports for given rows.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// A metric's value, and how far one that was computed in single precision may lie from it.
struct MetricValue {
  double value = 0.0;
  double bound = 0.0;

  bool is(double other) const;
};

/// Numbers that the formula takes of each sample. The mean takes one.
std::size_t columns_of(MetricFormula formula);

/// Over rows of columns_of(formula) numbers each: prediction (or score) and target (or label).
/// Nothing where the formula has no value: no rows, or one of the columns is constant.
///
/// The bound follows from sums of n products, taken in one pass, that each round by at most (n + 4)
/// units of the sum of their absolute values.
/// Requires: another formula than kNone.
/// Source: Pearson's r; Spearman's rho, ties sharing the mean of their ranks; R2 = 1 - SSres / SStot;
///     the area under the curve as the Mann-Whitney statistic.
std::optional<MetricValue> value_of(MetricFormula formula, std::span<const double> rows);

}  // namespace lockstep::laws
