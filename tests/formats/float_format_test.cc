#include "lockstep/formats/float_format.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

FloatFormat format(ElementType type) { return *FloatFormat::of(type); }

TEST(FloatFormatTest, IntegersAndComplexNumbersHaveNoFloatFormat) {
  EXPECT_FALSE(FloatFormat::of(ElementType::kI64).has_value());
  EXPECT_FALSE(FloatFormat::of(ElementType::kC64).has_value());
  EXPECT_FALSE(FloatFormat::of(ElementType::kF8E4M3).has_value());
}

// bf16 has 8 significant bits: 256 + 1 ties to 256, 258 + 1 to 260. f16 has 11.
TEST(FloatFormatTest, EachAdditionRoundsOnceToEven) {
  EXPECT_EQ(format(ElementType::kBF16).add(256.0, 1.0), 256.0);
  EXPECT_EQ(format(ElementType::kBF16).add(258.0, 1.0), 260.0);
  EXPECT_EQ(format(ElementType::kF16).add(2048.0, 1.0), 2048.0);
  EXPECT_EQ(format(ElementType::kF16).add(2050.0, 1.0), 2052.0);
  EXPECT_EQ(format(ElementType::kF32).add(16'777'216.0, 1.0), 16'777'216.0);
  EXPECT_EQ(format(ElementType::kF64).add(16'777'216.0, 1.0), 16'777'217.0);
}

TEST(FloatFormatTest, QuotientsAndProductsRoundOnce) {
  EXPECT_EQ(format(ElementType::kF32).divide(1.0, 3.0), static_cast<double>(1.0F / 3.0F));
  EXPECT_EQ(format(ElementType::kBF16).divide(1.0, 3.0), 0.333984375);
  EXPECT_EQ(format(ElementType::kF32).multiply(0.1F, 3.0), static_cast<double>(0.1F * 3.0F));
}

TEST(FloatFormatTest, UlpsCountTheNumbersBetween) {
  const FloatFormat f32 = format(ElementType::kF32);
  EXPECT_EQ(f32.ulps_between(1.0, std::nextafter(1.0F, 2.0F)), 1U);
  EXPECT_EQ(f32.ulps_between(0.0, -0.0), 0U);
  EXPECT_EQ(f32.ulps_between(-0x1p-149, 0x1p-149), 2U);
  EXPECT_EQ(format(ElementType::kBF16).ulps_between(1.0, 1.0078125), 1U);
  EXPECT_EQ(format(ElementType::kF64)
                .ulps_between(-std::numeric_limits<double>::infinity(),
                              std::numeric_limits<double>::infinity()),
            2 * 0x7FF0000000000000U);
}

}  // namespace
}  // namespace lockstep
