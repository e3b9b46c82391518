#include "lockstep/tensor/poison.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/half.h"

namespace lockstep {
namespace {

TEST(PoisonTest, ArithmeticKeepsTheNumberOfTheTransfer) {
  const float poison = poison_of(0x12345);
  ASSERT_TRUE(std::isnan(poison));
  const volatile float half = 0.5F;
  for (const double value : {static_cast<double>(poison),
                             static_cast<double>(poison * half + 3.0F),
                             static_cast<double>(half / poison),
                             static_cast<double>(-poison),
                             std::fabs(static_cast<double>(poison)) + 1.0}) {
    EXPECT_EQ(poisoned_by(value), 0x2345) << std::bit_cast<std::uint64_t>(value);
  }
}

TEST(PoisonTest, OtherValuesAreNotPoison) {
  const double infinity = std::numeric_limits<double>::infinity();
  const volatile double zero = 0.0;
  for (const double value : {0.0,
                             -1.5,
                             infinity,
                             -infinity,
                             infinity - infinity,
                             zero / zero,
                             std::numeric_limits<double>::quiet_NaN(),
                             static_cast<double>(std::numeric_limits<float>::quiet_NaN())}) {
    EXPECT_FALSE(poisoned_by(value)) << value;
  }
}

TEST(PoisonTest, EveryFloatingPointTypeIsFilledAndRecognised) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
    ASSERT_TRUE(can_be_poisoned(dtype));
    std::vector<std::byte> bytes(static_cast<std::size_t>(5 * size_of(dtype)));
    EXPECT_FALSE(find_poison(bytes.data(), 5, dtype));
    fill_with_poison(bytes.data(), 5, dtype, 77);
    EXPECT_TRUE(holds_poison(bytes.data(), 5, dtype, 77));
    const auto number = find_poison(bytes.data(), 5, dtype);
    EXPECT_EQ(number, size_of(dtype) == 2 ? 0 : 77) << name_of(dtype);
    bytes[static_cast<std::size_t>(4 * size_of(dtype))] ^= std::byte{1};
    EXPECT_FALSE(holds_poison(bytes.data(), 5, dtype, 77)) << name_of(dtype);
  }
}

TEST(PoisonTest, IntegersKeepTheirValues) {
  std::vector<std::int64_t> values{1, 2, 3};
  EXPECT_FALSE(can_be_poisoned(DType::kI64));
  EXPECT_FALSE(find_poison(values.data(), 3, DType::kI64));
}

}  // namespace
}  // namespace lockstep
