#include "lockstep/harness/certify/fraction.h"

#include <cmath>
#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

#include "lockstep/base/check.h"

namespace lockstep {

namespace {

constexpr double kHalfUlp = std::numeric_limits<double>::epsilon() / 2;

TEST(FractionTest, IsInLowestTermsWithAPositiveDenominator) {
  EXPECT_EQ(Fraction(6, -4).numerator(), -3);
  EXPECT_EQ(Fraction(6, -4).denominator(), 2);
  EXPECT_EQ(Fraction(0, 7), Fraction());
  EXPECT_EQ(Fraction(28, 7).text(), "4");
  EXPECT_EQ(Fraction(14, 3).text(), "14/3");
}

TEST(FractionTest, ComputesAsByHand) {
  EXPECT_EQ(Fraction(1, 3) + Fraction(1, 6), Fraction(1, 2));
  EXPECT_EQ(Fraction(2, 3) * Fraction(9, 4), Fraction(3, 2));
  EXPECT_EQ(Fraction(1, 2) / Fraction(1, 18), Fraction(9));
  EXPECT_LT(Fraction(1, 3), Fraction(1, 2));
  EXPECT_LT(Fraction(-1, 2), Fraction(-1, 3));
}

TEST(FractionTest, SaysThatAResultDoesNotFitInsteadOfWrapping) {
  const std::int64_t large = std::numeric_limits<std::int64_t>::max();
  EXPECT_THROW(Fraction(large) * Fraction(3), ContractViolation);
  EXPECT_THROW(Fraction(large) + Fraction(1), ContractViolation);
  EXPECT_FALSE(sum_if_it_fits(Fraction(1, large), Fraction(1, large - 1)).has_value());
}

TEST(FractionTest, IsRecognisedInItsRounding) {
  for (std::int64_t q = 1; q < 2000; ++q) {
    for (const std::int64_t p : {std::int64_t{1}, q - 1, q + 1, 7 * q + 3}) {
      if (p == 0) continue;
      // Many roundings off: 98, and those of this division and product.
      const double value = static_cast<double>(p) / static_cast<double>(q) * (1 + 98 * kHalfUlp);
      const auto found = nearest_fraction(value, std::abs(value) * 101 * kHalfUlp);
      ASSERT_TRUE(found.has_value()) << p << "/" << q;
      ASSERT_EQ(*found, Fraction(p, q));
    }
  }
}

TEST(FractionTest, IsNegativeWhereTheNumberIs) {
  EXPECT_EQ(nearest_fraction(-1.0 / 3.0, kHalfUlp), Fraction(-1, 3));
}

// The square root of 1/2 is irrational: its convergents come no closer than 1 / (3 q^2), and that is
// more than the error for all q that are looked for.
TEST(FractionTest, IrrationalAndInfiniteNumbersHaveNoFraction) {
  EXPECT_FALSE(nearest_fraction(std::sqrt(0.5), kHalfUlp).has_value());
  EXPECT_FALSE(nearest_fraction(std::nan(""), kHalfUlp).has_value());
  EXPECT_FALSE(nearest_fraction(1e300, 1e280).has_value());
}

TEST(FractionTest, ANumberJustOutsideTheBoundIsAnotherFraction) {
  // Next to 1/1000 and just outside of the bound.
  const double off = 0.001 * (1 + 1e-12);
  EXPECT_NE(nearest_fraction(off, off * 100 * kHalfUlp), Fraction(1, 1000));
}

TEST(FractionTest, IsReadFromText) {
  EXPECT_EQ(parse_fraction("3/4"), Fraction(3, 4));
  EXPECT_EQ(parse_fraction(" 6 / 8 "), Fraction(3, 4));
  EXPECT_EQ(parse_fraction("0.1"), Fraction(1, 10));
  EXPECT_EQ(parse_fraction("0.25"), Fraction(1, 4));
  EXPECT_EQ(parse_fraction("2"), Fraction(2));
  EXPECT_EQ(parse_fraction("0"), Fraction());
  for (const char* wrong : {"", "x", "1/0", "1/x", "1/2/3", "nan", "inf"}) {
    EXPECT_FALSE(parse_fraction(wrong).has_value()) << wrong;
  }
}

}  // namespace

}  // namespace lockstep
