#include <cmath>
#include <gmock/gmock.h>
#include <limits>

#include <gtest/gtest.h>

#include "tests/support/test_runtime.h"

namespace lockstep {
namespace {

using ::testing::NanSensitiveDoubleEq;
using ::testing::Pointwise;
using testing::TestRuntime;
using testing::values_of;
using Values = std::vector<double>;

/// Reduces one tensor per rank into as many outputs and returns the first, having checked that all
/// agree.
Values reduced(DType dtype, ReduceOp op, const std::vector<Values>& by_rank) {
  TestRuntime test;
  std::vector<Tensor> tensors;
  std::vector<void*> outputs;
  std::vector<const void*> inputs;
  for (const Values& values : by_rank) {
    const Shape shape{static_cast<std::int64_t>(values.size())};
    tensors.push_back(Tensor::of(test.runtime, shape, dtype, values));
    outputs.push_back(tensors.back().raw());
    inputs.push_back(tensors.back().raw());
  }
  test.kernels->reduce(outputs, inputs, tensors[0].n_elems(), dtype, op);
  for (const Tensor& tensor : tensors) {
    EXPECT_THAT(values_of(tensor), Pointwise(NanSensitiveDoubleEq(), values_of(tensors[0])));
  }
  return values_of(tensors[0]);
}

TEST(ReduceTest, FloatsAreReducedByEveryArithmeticOperation) {
  const std::vector<Values> ranks = {{1, -2, 8}, {3, 4, 0.5}, {2, -8, 0.25}, {2, 2, 1}};

  for (const DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
    EXPECT_EQ(reduced(dtype, ReduceOp::kSum, ranks), (Values{8, -4, 9.75}));
    EXPECT_EQ(reduced(dtype, ReduceOp::kAvg, ranks), (Values{2, -1, 2.4375}));
    EXPECT_EQ(reduced(dtype, ReduceOp::kProduct, ranks), (Values{12, 128, 1}));
    EXPECT_EQ(reduced(dtype, ReduceOp::kMin, ranks), (Values{1, -8, 0.25}));
    EXPECT_EQ(reduced(dtype, ReduceOp::kMax, ranks), (Values{3, 4, 8}));
    EXPECT_EQ(reduced(dtype, ReduceOp::kPremulSum, ranks), (Values{8, -4, 9.75}));
  }
}

TEST(ReduceTest, IntegersAreReducedByEveryOperation) {
  const std::vector<Values> ranks = {{12, 7}, {10, 3}, {9, 6}};

  for (const DType dtype : {DType::kI8, DType::kU8, DType::kI32, DType::kI64}) {
    EXPECT_EQ(reduced(dtype, ReduceOp::kSum, ranks), (Values{31, 16}));
    EXPECT_EQ(reduced(dtype, ReduceOp::kAvg, ranks), (Values{10, 5}));
    EXPECT_EQ(reduced(dtype, ReduceOp::kMin, ranks), (Values{9, 3}));
    EXPECT_EQ(reduced(dtype, ReduceOp::kMax, ranks), (Values{12, 7}));
    EXPECT_EQ(reduced(dtype, ReduceOp::kBand, ranks), (Values{8, 2}));
    EXPECT_EQ(reduced(dtype, ReduceOp::kBor, ranks), (Values{15, 7}));
    EXPECT_EQ(reduced(dtype, ReduceOp::kBxor, ranks), (Values{15, 2}));
  }
  EXPECT_EQ(reduced(DType::kI32, ReduceOp::kProduct, ranks), (Values{1080, 126}));
}

TEST(ReduceTest, IntegersWrapAround) {
  EXPECT_EQ(reduced(DType::kI8, ReduceOp::kSum, {{127}, {1}}), (Values{-128}));
  EXPECT_EQ(reduced(DType::kU8, ReduceOp::kSum, {{255}, {2}}), (Values{1}));
  EXPECT_EQ(reduced(DType::kI32, ReduceOp::kSum, {{2147483647}, {1}}), (Values{-2147483648.0}));
  EXPECT_EQ(reduced(DType::kI64, ReduceOp::kProduct, {{0x1p32}, {0x1p31}}), (Values{-0x1p63}));
}

TEST(ReduceTest, BoolsAddToOr) {
  const std::vector<Values> ranks = {{1, 0, 1}, {1, 0, 0}};

  EXPECT_EQ(reduced(DType::kBool, ReduceOp::kSum, ranks), (Values{1, 0, 1}));
  EXPECT_EQ(reduced(DType::kBool, ReduceOp::kProduct, ranks), (Values{1, 0, 0}));
  EXPECT_THROW(reduced(DType::kBool, ReduceOp::kAvg, ranks), ContractViolation);
}

TEST(ReduceTest, FloatsHaveNoBitwiseOperations) {
  EXPECT_THROW(reduced(DType::kF32, ReduceOp::kBand, {{1}, {2}}), ContractViolation);
}

// Left to right the small numbers are lost; any pairing of them would keep 2.
TEST(ReduceTest, TheOrderIsTheOrderOfTheInputs) {
  EXPECT_EQ(reduced(DType::kF32, ReduceOp::kSum, {{0x1p24}, {1}, {1}}), (Values{0x1p24}));
  EXPECT_EQ(reduced(DType::kF32, ReduceOp::kSum, {{1}, {1}, {0x1p24}}), (Values{0x1p24 + 2}));
}

// std::min and std::max, as gloo has them: a comparison with NaN is false, so the first operand
// stays.
TEST(ReduceTest, ANanWinsOnlyWhereItComesFirst) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<Values> first = {Values(67, nan), Values(67, 1), Values(67, 2)};
  const std::vector<Values> second = {Values(67, 1), Values(67, nan), Values(67, 2)};

  for (const DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
    for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
      for (const double value : reduced(dtype, op, first)) EXPECT_TRUE(std::isnan(value));
      const double of_others = op == ReduceOp::kMin ? 1 : 2;
      EXPECT_EQ(reduced(dtype, op, second), Values(67, of_others));
    }
  }
}

// f16 has 11 bits: 2048 + 1 rounds back to 2048 each time, where one rounding at the end gives
// 2052.
TEST(ReduceTest, SixteenBitFloatsRoundAfterEachAddition) {
  EXPECT_EQ(reduced(DType::kF16, ReduceOp::kSum, {{2048}, {1}, {1}, {1}, {1}}), (Values{2048}));
  EXPECT_EQ(reduced(DType::kBF16, ReduceOp::kSum, {{256}, {1}, {1}, {1}, {1}}), (Values{256}));
}

TEST(ReduceTest, SumsAreRightForEverySizeAroundABlockAndEveryCountOfRanks) {
  for (const std::int64_t n : {0, 1, 255, 256, 257, 700}) {
    for (std::size_t n_ranks = 1; n_ranks <= 10; ++n_ranks) {
      const Values values(static_cast<std::size_t>(n), 1.0);

      const Values sum = reduced(DType::kF32, ReduceOp::kSum, std::vector<Values>(n_ranks, values));

      EXPECT_EQ(sum, Values(values.size(), static_cast<double>(n_ranks)));
    }
  }
}

TEST(ReduceTest, OneInputIsHandedToOtherOutputs) {
  TestRuntime test;
  const Tensor in = Tensor::full(test.runtime, {600}, DType::kF32, 3);
  const Tensor out = Tensor::full(test.runtime, {600}, DType::kF32, 1);
  const std::array<void*, 2> outputs = {in.raw(), out.raw()};
  const std::array<const void*, 1> inputs = {in.raw()};

  test.kernels->reduce(outputs, inputs, 600, DType::kF32, ReduceOp::kSum);
  EXPECT_EQ(values_of(in), Values(600, 3.0));
  EXPECT_EQ(values_of(out), Values(600, 3.0));

  const Tensor other = Tensor::full(test.runtime, {600}, DType::kF32, 1);
  const std::array<void*, 1> one_output = {other.raw()};
  test.kernels->reduce(one_output, inputs, 600, DType::kF32, ReduceOp::kSum);
  EXPECT_EQ(values_of(other), Values(600, 3.0));
}

TEST(ReduceTest, OneOutputMayBeTheLastInput) {
  TestRuntime test;
  const Tensor a = Tensor::full(test.runtime, {600}, DType::kF32, 1);
  const Tensor b = Tensor::full(test.runtime, {600}, DType::kF32, 2);
  const std::array<void*, 1> outputs = {b.raw()};
  const std::array<const void*, 2> inputs = {a.raw(), b.raw()};

  test.kernels->reduce(outputs, inputs, 600, DType::kF32, ReduceOp::kSum);

  EXPECT_EQ(values_of(b), Values(600, 3.0));
  EXPECT_EQ(values_of(a), Values(600, 1.0));
}

}  // namespace
}  // namespace lockstep
