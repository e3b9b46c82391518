#include "lockstep/random/uniform.h"

#include <bit>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/check.h"

namespace lockstep {
namespace {

TEST(UniformTest, AFloatIsTheLow24BitsOfOneDraw) {
  // First two outputs of seed 0: 8c7f0aac 97c4aa2f.
  Generator generator(0);
  std::vector<float> values(2);
  uniform(generator, values);
  EXPECT_EQ(values[0], static_cast<float>(0x7f0aac) / 16777216.0F);
  EXPECT_EQ(values[1], static_cast<float>(0xc4aa2f) / 16777216.0F);
}

TEST(UniformTest, ADoubleIsTheLow53BitsOfTwoDraws) {
  Generator generator(0);
  std::vector<double> values(1);
  uniform(generator, values);
  EXPECT_EQ(values[0], static_cast<double>(0x1f0aac97c4aa2fULL) * 0x1p-53);
}

TEST(UniformTest, RangesAreStretchedWithOneRoundingOrTwo) {
  // Six floats in (-0.1, 0.1) with seed 7, as torch gives them on the two kinds of machine.
  const std::vector<std::uint32_t> fused = {
      0x3be4de4d, 0xbd76bd8d, 0x3d026d1d, 0x3d008647, 0xbd5aebf7, 0xbc758f0d};
  const std::vector<std::uint32_t> twice = {
      0x3be4de50, 0xbd76bd8d, 0x3d026d1e, 0x3d008646, 0xbd5aebf7, 0xbc758f10};
  const UniformRange range{.from = -0.1, .to = 0.1};
  std::vector<float> values(6);

  Generator one(7);
  uniform(one, values, range);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(std::bit_cast<std::uint32_t>(values[i]), fused[i]);
  Generator two(7);
  uniform(two, values, range, UniformRounding::kTwice);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(std::bit_cast<std::uint32_t>(values[i]), twice[i]);
}

TEST(UniformTest, LongFillsTakeOneOrTwoDrawsPerElement) {
  for (const std::size_t n : {0U, 255U, 256U, 257U, 1000U}) {
    Generator generator(4);
    std::vector<float> floats(n);
    uniform(generator, floats);
    std::vector<double> doubles(n);
    uniform(generator, doubles);
    std::mt19937 model(4);
    model.discard(3 * n);
    EXPECT_EQ(generator.random(), model()) << n;
  }
}

TEST(UniformTest, ABlockedFillEqualsOneByOne) {
  Generator blocked(8);
  Generator single(8);
  std::vector<float> values(600);
  uniform(blocked, values, {.from = 1.0, .to = 3.0});
  for (const float value : values) {
    std::vector<float> one(1);
    uniform(single, one, {.from = 1.0, .to = 3.0});
    ASSERT_EQ(value, one[0]);
  }
}

TEST(UniformTest, BoundsOutOfOrderOrTooWideAreContractViolations) {
  Generator generator(1);
  std::vector<float> values(1);
  constexpr double kHuge = std::numeric_limits<float>::max();
  EXPECT_THROW(uniform(generator, values, {.from = 1.0, .to = 0.0}), ContractViolation);
  EXPECT_THROW(uniform(generator, values, {.from = -kHuge, .to = kHuge}), ContractViolation);
  EXPECT_THROW(uniform(generator, values, {.from = 0.0, .to = 2 * kHuge}), ContractViolation);
  EXPECT_THROW(uniform(generator, values, {.from = std::numeric_limits<double>::quiet_NaN()}),
               ContractViolation);
}

}  // namespace
}  // namespace lockstep
