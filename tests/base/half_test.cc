#include "lockstep/base/half.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

/// The value of binary16 bits from the definition: (-1)^s * m * 2^e.
double f16_by_definition(std::uint32_t bits) {
  const int exponent = static_cast<int>((bits >> 10U) & 31U);
  const auto fraction = static_cast<double>(bits & 1023U);
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024.0 + fraction, exponent - 25);
  return (bits & 0x8000U) != 0 ? -magnitude : magnitude;
}

TEST(HalfTest, EveryFiniteF16HasItsDefinedValueAndReadsBack) {
  for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
    if ((bits & 0x7C00U) == 0x7C00U) continue;
    const auto half = static_cast<std::uint16_t>(bits);
    ASSERT_EQ(static_cast<double>(from_f16(half)), f16_by_definition(bits)) << bits;
    ASSERT_EQ(to_f16(from_f16(half)), half);
  }
}

TEST(HalfTest, BetweenTwoF16TheNearerWinsAndTiesGoToEven) {
  for (std::uint32_t bits = 0; bits < 0x7BFFU; ++bits) {
    const auto low = static_cast<std::uint16_t>(bits);
    const auto high = static_cast<std::uint16_t>(bits + 1);
    const double middle = (f16_by_definition(bits) + f16_by_definition(bits + 1)) / 2;
    const auto tie = static_cast<float>(middle);  // Exact: a f16 has 11 bits.
    ASSERT_EQ(to_f16(tie), bits % 2 == 0 ? low : high) << bits;
    ASSERT_EQ(to_f16(std::nextafter(tie, 0.0F)), low) << bits;
    ASSERT_EQ(to_f16(std::nextafter(tie, 1e9F)), high) << bits;
    ASSERT_EQ(to_f16(-tie), (bits % 2 == 0 ? low : high) | 0x8000U) << bits;
  }
}

TEST(HalfTest, F16OverflowsAtTheMiddleToTheNextPower) {
  EXPECT_EQ(to_f16(65504.0F), 0x7BFF);
  EXPECT_EQ(to_f16(std::nextafter(65520.0F, 0.0F)), 0x7BFF);
  EXPECT_EQ(to_f16(65520.0F), 0x7C00);
  EXPECT_EQ(to_f16(-1e30F), 0xFC00);
  EXPECT_EQ(from_f16(0x7C00), std::numeric_limits<float>::infinity());
}

TEST(HalfTest, NanStaysNan) {
  EXPECT_TRUE(std::isnan(from_f16(0x7E01)));
  EXPECT_TRUE(std::isnan(from_f16(to_f16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x7F800001U)), 0x7FC0);  // Rounding alone would give Inf.
}

TEST(HalfTest, EveryBf16ReadsBackAndTiesGoToEven) {
  for (std::uint32_t bits = 0; bits < 0x7F80U; ++bits) {
    const auto low = static_cast<std::uint16_t>(bits);
    const std::uint32_t tie = (bits << 16U) | 0x8000U;
    ASSERT_EQ(to_bf16(from_bf16(low)), low);
    ASSERT_EQ(to_bf16(std::bit_cast<float>(tie)), bits + (bits % 2));
    ASSERT_EQ(to_bf16(std::bit_cast<float>(tie - 1)), bits);
    ASSERT_EQ(to_bf16(std::bit_cast<float>(tie + 1)), bits + 1);
  }
}

TEST(HalfTest, KnownNumbersHaveTheirKnownPatterns) {
  EXPECT_EQ(to_f16(1.0F), 0x3C00);
  EXPECT_EQ(to_f16(-2.0F), 0xC000);
  EXPECT_EQ(to_f16(0x1p-24F), 0x0001);
  EXPECT_EQ(to_f16(0x1p-25F), 0x0000);
  EXPECT_EQ(to_bf16(1.0F), 0x3F80);
  EXPECT_EQ(to_bf16(3.14159274F), 0x4049);
}

}  // namespace
}  // namespace lockstep
