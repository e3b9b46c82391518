#include "lockstep/nn/init.h"

#include <cmath>
#include <gmock/gmock.h>

#include <gtest/gtest.h>

#include "lockstep/base/check.h"
#include "lockstep/nn/linear.h"
#include "lockstep/tensor/contents.h"

#include "tests/support/plain_runtime.h"

namespace lockstep::nn {
namespace {

using lockstep::testing::PlainRuntime;
using lockstep::testing::values_of;
using ::testing::Each;
using ::testing::ElementsAre;

TEST(InitTest, ConstantAndValuesFillAModelInOrder) {
  PlainRuntime rt;
  const Linear layer(rt, 2, 1);

  init::constant(layer, 0.5);
  EXPECT_THAT(values_of(layer.weight().data()), Each(0.5));
  EXPECT_THAT(values_of(layer.bias().data()), Each(0.5));

  init::values(layer, std::array{1.0, 2.0, 3.0});
  EXPECT_THAT(values_of(layer.weight().data()), ElementsAre(1, 2));
  EXPECT_THAT(values_of(layer.bias().data()), ElementsAre(3));
}

// A caller that kept a pointer could write at any time: such a tensor is read each time it is asked for.
TEST(InitTest, WhatInitialisesATensorKeepsNoPointerToIt) {
  PlainRuntime rt;
  Contents contents;
  rt.runtime().set_contents(&contents);
  Generator generator(5);
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
    const auto is_named_after = [&](auto initialise) {
      const Tensor tensor = Tensor::empty(rt.runtime(), {16, 16}, dtype);
      initialise(tensor);
      return content_name(tensor).is_known();
    };
    EXPECT_TRUE(is_named_after([&](const Tensor& t) { init::uniform(t, generator, 1.0); }));
    EXPECT_TRUE(is_named_after([&](const Tensor& t) { init::constant(t, 1.0); }));
    EXPECT_FALSE(is_named_after([&](const Tensor& t) { t.raw(); }));
    if (dtype == DType::kBF16) continue;
    EXPECT_TRUE(is_named_after([&](const Tensor& t) { init::normal(t, generator, 0.0, 1.0); }));
    EXPECT_TRUE(is_named_after([&](const Tensor& t) { init::trunc_normal(t, generator, {}); }));
  }
  const Linear layer(rt, 16, 16, generator);
  EXPECT_TRUE(content_name(layer.weight().data()).is_known());
  EXPECT_TRUE(content_name(layer.bias().data()).is_known());
}

// Rounded to 8 bits, one in some 500 numbers below 1 is 1.
TEST(InitTest, A16BitDrawThatRoundsToTheUpperBoundIsTheLowerOne) {
  PlainRuntime rt;
  Generator generator(5);
  const Tensor drawn = Tensor::empty(rt.runtime(), {1 << 14}, DType::kBF16);

  init::uniform(drawn, generator, 1.0);

  std::size_t n_lowest = 0;
  for (const double value : values_of(drawn)) {
    EXPECT_GE(value, -1.0);
    EXPECT_LT(value, 1.0);
    if (value == -1.0) ++n_lowest;
  }
  EXPECT_GT(n_lowest, 0U);
}

TEST(InitTest, TooFewOrTooManyValuesAreRefused) {
  PlainRuntime rt;
  const Linear layer(rt, 2, 1);

  EXPECT_THROW(init::values(layer, std::array{1.0, 2.0}), ContractViolation);
  EXPECT_THROW(init::values(layer, std::array{1.0, 2.0, 3.0, 4.0}), ContractViolation);
}

TEST(InitTest, GridPointsAreDyadicBoundedAndAFunctionOfTheSeed) {
  PlainRuntime rt;
  const Tensor a = Tensor::zeros(rt, {1000}, DType::kF32);
  const Tensor b = Tensor::zeros(rt, {1000}, DType::kF32);
  Generator first(5);
  Generator same(5);
  Generator other(6);

  init::grid(a, first, {.bits = 2, .limit = 0.75});
  for (const double value : values_of(a)) {
    EXPECT_LE(std::fabs(value), 0.75);
    EXPECT_EQ(value * 4, std::round(value * 4));
  }
  EXPECT_THAT(values_of(a), ::testing::Contains(0.75));
  EXPECT_THAT(values_of(a), ::testing::Contains(-0.75));

  init::grid(b, same, {.bits = 2, .limit = 0.75});
  EXPECT_EQ(values_of(a), values_of(b));
  init::grid(b, other, {.bits = 2, .limit = 0.75});
  EXPECT_NE(values_of(a), values_of(b));
}

TEST(InitTest, AGridPointTakesOneDraw) {
  PlainRuntime rt;
  Generator drawn(5);
  Generator skipped(5);

  init::grid(Tensor::zeros(rt, {7}, DType::kF32), drawn);
  for (int i = 0; i < 7; ++i) skipped.random();

  EXPECT_EQ(drawn.random(), skipped.random());
}

TEST(InitTest, EmptyTensorsTakeNoDraws) {
  PlainRuntime rt;
  Generator drawn(5);
  Generator fresh(5);

  init::linear_weight(Tensor::zeros(rt, {3, 0}, DType::kF32), drawn);

  EXPECT_EQ(drawn.random(), fresh.random());
}

}  // namespace
}  // namespace lockstep::nn
