#include "lockstep/random/normal.h"

#include <bit>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/check.h"

namespace lockstep {
namespace {

TEST(NormalTest, ShortFillsEqualOneLongerShortFill) {
  Generator parts(4);
  Generator whole(4);
  std::vector<float> one(1);
  std::vector<float> ten(10);
  normal(whole, std::span(ten));
  for (const float expected : ten) {
    normal(parts, std::span(one));
    EXPECT_EQ(one[0], expected);
  }
}

TEST(NormalTest, FromSixteenElementsOnTheKeptHalfPairStaysWhereItIs) {
  Generator generator(4);
  std::vector<double> one(1);
  normal(generator, std::span(one));
  std::vector<float> block(16);
  normal(generator, std::span(block));
  EXPECT_TRUE(generator.take_cached_normal().has_value());
}

// Five floats of mean 0.5 and deviation 2 with seed 9, as torch gives them on any CPU.
TEST(NormalTest, AShortFillOfSeedNineEqualsTorch) {
  const std::vector<std::uint32_t> expected = {
      0x3f16e687, 0x408a51be, 0x3d1b651a, 0x3f988ebf, 0x4048b526};
  Generator generator(9);
  std::vector<float> values(5);
  normal(generator, std::span(values), {.mean = 0.5, .std = 2.0});
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(values[i]), expected[i]);
  }
}

// n standard normal draws: their mean is off by 6 / sqrt(n) once in 500 million seeds; this seed is
// fixed. The same bound, times sqrt(2), holds for the mean square.
TEST(NormalTest, MomentsAreThoseOfTheDistribution) {
  constexpr std::size_t kNormalDraws = 1U << 16U;
  Generator generator(12);
  std::vector<float> values(kNormalDraws);
  normal(generator, std::span(values));
  double sum = 0.0;
  double squares = 0.0;
  for (const float value : values) {
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  EXPECT_LT(std::abs(sum / kNormalDraws), 6.0 / 256);
  EXPECT_LT(std::abs(squares / kNormalDraws - 1), 6.0 * std::sqrt(2.0) / 256);
}

TEST(NormalTest, NothingIsDrawnForNothing) {
  Generator generator(2);
  normal(generator, std::span<float>());
  EXPECT_EQ(generator.random(), Generator(2).random());
}

TEST(NormalTest, ANegativeDeviationIsAContractViolation) {
  Generator generator(2);
  std::vector<float> values(1);
  EXPECT_THROW(normal(generator, std::span(values), {.mean = 0.0, .std = -1.0}), ContractViolation);
}

}  // namespace
}  // namespace lockstep
