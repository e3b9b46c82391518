// Exact fractions: what weights of averages are, and how one is recognised in a rounded number.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

/// A rational number in lowest terms; the denominator is positive.
///
///   Fraction(2, 6) == Fraction(1, 3)
///
/// Errors: arithmetic whose result does not fit 64 bits throws ContractViolation.
class Fraction {
 public:
  constexpr Fraction() = default;

  constexpr explicit Fraction(std::int64_t whole) : numerator_(whole) {}

  /// Requires: denominator != 0.
  Fraction(std::int64_t numerator, std::int64_t denominator);

  std::int64_t numerator() const { return numerator_; }

  std::int64_t denominator() const { return denominator_; }

  double value() const;
  std::string text() const;  ///< "14/3", or "4" where the denominator is 1.

  bool is_zero() const { return numerator_ == 0; }

  friend bool operator==(const Fraction&, const Fraction&) = default;
  friend std::strong_ordering operator<=>(const Fraction& a, const Fraction& b);
  friend Fraction operator*(const Fraction& a, const Fraction& b);
  friend Fraction operator/(const Fraction& a, const Fraction& b);  ///< Requires: b is not zero.
  friend Fraction operator+(const Fraction& a, const Fraction& b);

 private:
  std::int64_t numerator_ = 0;
  std::int64_t denominator_ = 1;
};

/// The sum, or nothing where it does not fit.
std::optional<Fraction> sum_if_it_fits(const Fraction& a, const Fraction& b);

/// The fraction that `value` is a rounding of, where only one can be meant.
///
/// At most one fraction p/q with q <= Q = sqrt(1 / (2 error)) is within `error` of `value`, because
/// two of them are at least 1 / Q^2 apart; and if there is one, it is a convergent of the continued
/// fraction of `value`. Only q <= Q / 16 are looked for: numbers are within `error` of one of those
/// by chance in 3 / pi^2 / 256, that is 1 of 842 cases. Zero is recognised only as exactly zero.
///
/// Requires: error > 0.
/// Returns: nothing where no such fraction is within `error`.
/// Source: Legendre's theorem (Hardy and Wright, An Introduction to the Theory of Numbers, 184).
std::optional<Fraction> nearest_fraction(double value, double error);

/// "1/3", or a decimal number as "0.577": text that parse_double or two integers read.
/// Returns: nothing for anything else, and for a denominator of zero.
std::optional<Fraction> parse_fraction(std::string_view text);

}  // namespace lockstep
