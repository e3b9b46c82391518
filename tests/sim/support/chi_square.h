// Are outcomes equally frequent?
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <string>

namespace lockstep::sim::testing {

/// How often each outcome came.
using Counts = std::map<std::string, std::int64_t>;

/// Pearson's statistic against equal numbers in `n_cells` cells.
inline double chi_square(const Counts& counts, std::int64_t n_cells, int n_runs) {
  const double expected = static_cast<double>(n_runs) / static_cast<double>(n_cells);
  double sum = static_cast<double>(n_cells - static_cast<std::int64_t>(counts.size())) * expected;
  for (const auto& [word, n] : counts) {
    const double off = static_cast<double>(n) - expected;
    sum += off * off / expected;
  }
  return sum;
}

/// The value that a chi-square variable of this many degrees of freedom exceeds once in a million.
/// Source: Wilson and Hilferty, "The Distribution of Chi-Square", PNAS 17 (1931): its cube root is
///     nearly normal. The normal quantile of 1 - 10^-6 is 4.7534.
inline double one_in_a_million(std::int64_t degrees) {
  const auto k = static_cast<double>(degrees);
  const double root = 1.0 - 2.0 / (9.0 * k) + 4.7534 * std::sqrt(2.0 / (9.0 * k));
  return k * root * root * root;
}

}  // namespace lockstep::sim::testing
