#include "lockstep/tensor/tensor.h"

#include <gtest/gtest.h>

#include "lockstep/tensor/in_flight.h"

#include "tests/support/test_runtime.h"

namespace lockstep {
namespace {

using testing::TestRuntime;
using testing::values_of;
using Values = std::vector<double>;

Tensor counted(Runtime& runtime, const Shape& shape) {
  Values values;
  for (std::int64_t i = 0; i < shape.n_elems(); ++i) values.push_back(static_cast<double>(i));
  return Tensor::of(runtime, shape, DType::kF32, values);
}

TEST(TensorTest, RowsAreViewsOfTheSameMemory) {
  TestRuntime test;
  const Tensor matrix = counted(test.runtime, {3, 2});

  const Tensor rows = matrix.rows(1, 2);
  rows.data<float>()[0] = 20.0F;

  EXPECT_EQ(rows.shape(), (Shape{2, 2}));
  EXPECT_EQ(values_of(matrix), (Values{0, 1, 20, 3, 4, 5}));
  EXPECT_TRUE(rows.shares_memory_with(matrix));
}

TEST(TensorTest, SlicesOfSlicesCountFromTheirOwnStart) {
  TestRuntime test;
  const Tensor all = counted(test.runtime, {10});

  const Tensor inner = all.slice(4, {5}).slice(1, {2, 2});

  EXPECT_EQ(values_of(inner), (Values{5, 6, 7, 8}));
  EXPECT_EQ(inner.offset_bytes(), 20);
}

TEST(TensorTest, ReshapeKeepsElementsAndMemory) {
  TestRuntime test;
  const Tensor matrix = counted(test.runtime, {2, 3});

  EXPECT_EQ(values_of(matrix.reshape({3, 2})), values_of(matrix));
  EXPECT_THROW(matrix.reshape({4}), ContractViolation);
}

TEST(TensorTest, ACloneHasItsOwnMemory) {
  TestRuntime test;
  const Tensor original = counted(test.runtime, {4}).slice(1, {3});

  const Tensor copy = original.clone();
  original.data<float>()[0] = 9.0F;

  EXPECT_EQ(values_of(copy), (Values{1, 2, 3}));
  EXPECT_FALSE(copy.shares_memory_with(original));
}

TEST(TensorTest, MemoryLivesAsLongAsAnyView) {
  TestRuntime test;
  Tensor view;
  {
    const Tensor whole = counted(test.runtime, {100});
    view = whole.slice(98, {2});
  }

  EXPECT_EQ(values_of(view), (Values{98, 99}));
  EXPECT_GT(test.pool.bytes_in_use(), 0);
  view = Tensor();
  EXPECT_EQ(test.pool.bytes_in_use(), 0);
}

TEST(TensorTest, ConvertsBetweenAllTypes) {
  TestRuntime test;
  const std::vector<DType> dtypes = {DType::kF32,
                                     DType::kF64,
                                     DType::kF16,
                                     DType::kBF16,
                                     DType::kI8,
                                     DType::kU8,
                                     DType::kI32,
                                     DType::kI64,
                                     DType::kBool};
  const Values values = {0, 1, 1, 0, 1};

  for (const DType from : dtypes) {
    const Tensor source = Tensor::of(test.runtime, {5}, from, values);
    for (const DType to : dtypes) EXPECT_EQ(values_of(source.to(to)), values);
  }
}

TEST(TensorTest, ConversionToBoolAsksForNonZero) {
  TestRuntime test;
  const Tensor source = Tensor::of(test.runtime, {3}, DType::kF32, Values{0.25, 0, -3});

  EXPECT_EQ(values_of(source.to(DType::kBool)), (Values{1, 0, 1}));
}

TEST(TensorTest, ScalarsAndEmptyTensorsExist) {
  TestRuntime test;

  EXPECT_EQ(Tensor::full(test.runtime, {}, DType::kF64, 7).item(), 7.0);
  EXPECT_EQ(Tensor::zeros(test.runtime, {0, 3}, DType::kF32).n_elems(), 0);
  EXPECT_EQ(Tensor::zeros(test.runtime, {0, 3}, DType::kF32).clone().shape(), (Shape{0, 3}));
  EXPECT_FALSE(Tensor().defined());
}

TEST(TensorTest, BrokenContractsThrow) {
  TestRuntime test;
  const Tensor tensor = counted(test.runtime, {2, 2});

  EXPECT_THROW(tensor.data<double>(), ContractViolation);
  EXPECT_THROW(tensor.slice(3, {2}), ContractViolation);
  EXPECT_THROW(tensor.rows(1, 2), ContractViolation);
  EXPECT_THROW(tensor.item(), ContractViolation);
  EXPECT_THROW(tensor.at(4), ContractViolation);
  EXPECT_THROW(Tensor::of(test.runtime, {3}, DType::kF32, Values{1}), ContractViolation);
  EXPECT_THROW((Shape{1, 1, 1, 1, 1}), ContractViolation);
  EXPECT_THROW((Shape{-1}), ContractViolation);
}

TEST(TensorTest, DataStartsOnACacheLineAfterItsHeader) {
  TestRuntime test;
  const Tensor tensor = Tensor::empty(test.runtime, {3}, DType::kU8);

  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.raw()) % 64, 0U);
  EXPECT_EQ(test.pool.bytes_in_use(), 128);
}

TEST(ShapeTest, PrintsItsSizes) {
  EXPECT_EQ((Shape{2, 3}).text(), "[2, 3]");
  EXPECT_EQ(Shape{}.text(), "[]");
}

TEST(DTypeTest, NamesReadBack) {
  for (const char* name : {"f32", "f64", "f16", "bf16", "i8", "u8", "i32", "i64", "bool"}) {
    EXPECT_EQ(name_of(parse_enum<DType>(name).value()), name);
  }
  EXPECT_EQ(parse_enum<DType>("f8"), std::nullopt);
}

TEST(InFlightTest, OnlyAccessThatOverlapsATransferIsReported) {
  std::array<std::byte, 16> memory{};
  InFlight in_flight;
  in_flight.lend({memory.data(), memory.data() + 8, false, 1, {}});
  in_flight.lend({memory.data() + 8, memory.data() + 12, true, 2, {}});
  const auto touches = [&](std::size_t first, std::size_t last, bool writes) {
    const auto* const loan = in_flight.touched(memory.data() + first, memory.data() + last, writes);
    return loan == nullptr ? std::uint64_t{0} : loan->work;
  };

  EXPECT_EQ(touches(0, 8, false), 0U);
  EXPECT_EQ(touches(0, 1, true), 1U);
  EXPECT_EQ(touches(11, 16, false), 2U);
  EXPECT_EQ(touches(12, 16, true), 0U);
  in_flight.give_back(2);
  EXPECT_EQ(touches(11, 16, true), 0U);
}

}  // namespace
}  // namespace lockstep
