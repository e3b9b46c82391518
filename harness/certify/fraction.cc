#include "lockstep/harness/certify/fraction.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lockstep/base/check.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

/// The product, or nothing where it does not fit.
std::optional<std::int64_t> product(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
  return result;
}

std::int64_t checked_product(std::int64_t a, std::int64_t b) {
  const auto result = product(a, b);
  LOCKSTEP_CHECK(result.has_value(),
                 "the product of " + std::to_string(a) + " and " + std::to_string(b) +
                     " does not fit 64 bits");
  return *result;
}

}  // namespace

Fraction::Fraction(std::int64_t numerator, std::int64_t denominator) {
  LOCKSTEP_CHECK(denominator != 0, "a fraction needs a denominator that is not zero");
  const std::int64_t divisor = std::gcd(numerator, denominator);
  const std::int64_t sign = denominator < 0 ? -1 : 1;
  numerator_ = sign * (numerator / divisor);
  denominator_ = sign * (denominator / divisor);
}

double Fraction::value() const {
  return static_cast<double>(numerator_) / static_cast<double>(denominator_);
}

std::string Fraction::text() const {
  const std::string whole = std::to_string(numerator_);
  return denominator_ == 1 ? whole : whole + "/" + std::to_string(denominator_);
}

std::strong_ordering operator<=>(const Fraction& a, const Fraction& b) {
  return checked_product(a.numerator_, b.denominator_) <=>
         checked_product(b.numerator_, a.denominator_);
}

Fraction operator*(const Fraction& a, const Fraction& b) {
  // What can be cancelled crosswise is, so that only results that do not fit overflow.
  const Fraction left(a.numerator_, b.denominator_);
  const Fraction right(b.numerator_, a.denominator_);
  return {checked_product(left.numerator_, right.numerator_),
          checked_product(left.denominator_, right.denominator_)};
}

Fraction operator/(const Fraction& a, const Fraction& b) {
  return a * Fraction(b.denominator_, b.numerator_);
}

Fraction operator+(const Fraction& a, const Fraction& b) {
  const auto sum = sum_if_it_fits(a, b);
  LOCKSTEP_CHECK(sum.has_value(), a.text() + " + " + b.text() + " does not fit 64 bits");
  return *sum;
}

std::optional<Fraction> sum_if_it_fits(const Fraction& a, const Fraction& b) {
  const std::int64_t divisor = std::gcd(a.denominator(), b.denominator());
  const auto left = product(a.numerator(), b.denominator() / divisor);
  const auto right = product(b.numerator(), a.denominator() / divisor);
  const auto denominator = product(a.denominator(), b.denominator() / divisor);
  std::int64_t numerator = 0;
  if (!left || !right || !denominator) return std::nullopt;
  if (__builtin_add_overflow(*left, *right, &numerator)) return std::nullopt;
  return Fraction(numerator, *denominator);
}

std::optional<Fraction> nearest_fraction(double value, double error) {
  LOCKSTEP_CHECK(error > 0.0, "a rounded number needs a bound on its error");
  constexpr double kLargest = 0x1p31;
  if (value == 0.0) return Fraction();
  const double size = std::abs(value);
  if (!(size < kLargest)) return std::nullopt;
  const double most = std::min(kLargest, std::sqrt(0.5 / error) / 16.0);
  long double rest = size;
  std::int64_t p = 1;
  std::int64_t p_before = 0;
  std::int64_t q = 0;
  std::int64_t q_before = 1;
  while (true) {
    const auto digit = static_cast<std::int64_t>(rest);
    const std::int64_t p_next = digit * p + p_before;
    const std::int64_t q_next = digit * q + q_before;
    if (static_cast<double>(q_next) > most) return std::nullopt;
    p_before = p;
    q_before = q;
    p = p_next;
    q = q_next;
    const long double miss = std::abs(static_cast<long double>(size) -
                                      static_cast<long double>(p) / static_cast<long double>(q));
    if (p > 0 && miss <= static_cast<long double>(error)) {
      return Fraction(value < 0.0 ? -p : p, q);
    }
    const long double left = rest - static_cast<long double>(digit);
    // Below this, the next digit would be larger than any denominator that may be meant.
    if (left * static_cast<long double>(kLargest) < 1.0L) return std::nullopt;
    rest = 1.0L / left;
  }
}

std::optional<Fraction> parse_fraction(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash != std::string_view::npos) {
    const auto numerator = parse_int(trim(text.substr(0, slash)));
    const auto denominator = parse_int(trim(text.substr(slash + 1)));
    if (!numerator || !denominator || *denominator == 0) return std::nullopt;
    return Fraction(*numerator, *denominator);
  }
  const auto number = parse_double(trim(text));
  if (!number || !std::isfinite(*number)) return std::nullopt;
  // What a person types has few digits: the fraction that rounds to the same double.
  const double error = std::max(std::abs(*number), 0x1p-20) * 0x1p-52;
  return nearest_fraction(*number, error);
}

}  // namespace lockstep
