#include "lockstep/harness/rounding/exact_sum.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

double sum_of(std::initializer_list<double> terms) {
  ExactSum sum;
  for (const double term : terms) sum.add(term);
  return sum.rounded();
}

TEST(ExactSumTest, NothingIsLostBesideLargeTerms) {
  EXPECT_EQ(sum_of({1e100, 1.0, -1e100}), 1.0);
  EXPECT_EQ(sum_of({0x1p1000, 0x1p-1074, -0x1p1000}), 0x1p-1074);
  EXPECT_EQ(sum_of({1.0, 0x1p-60, -1.0, 0x1p-60}), 0x1p-59);
}

TEST(ExactSumTest, TheOrderOfTermsDoesNotMatter) {
  EXPECT_EQ(sum_of({1.0, 1e30, 3.0, -1e30, 5.0}), 9.0);
  EXPECT_EQ(sum_of({-1e30, 5.0, 1e30, 3.0, 1.0}), 9.0);
}

TEST(ExactSumTest, DistancesAreOfTheExactSum) {
  ExactSum sum;
  sum.add(1e16);
  sum.add(1.0);  // 1e16 + 1 is not a double: the neighbours are 1e16 and 1e16 + 2.
  EXPECT_EQ(sum.distance_from(1e16), 1.0);
  EXPECT_EQ(sum.distance_from(1e16 + 2), 1.0);
}

TEST(ExactSumTest, AnEmptySumIsZero) { EXPECT_EQ(ExactSum().rounded(), 0.0); }

}  // namespace
}  // namespace lockstep
