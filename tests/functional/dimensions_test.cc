// Broadcasting, sums along a dimension and elementary functions: values worked out by hand, gradients
// against differences.
#include <gmock/gmock.h>

#include <gtest/gtest.h>

#include "lockstep/autograd/node.h"
#include "lockstep/base/check.h"
#include "lockstep/functional/functions.h"

#include "tests/functional/gradient_check.h"

namespace lockstep {
namespace {

using testing::Arithmetic;
using testing::compare_gradients;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::PlainRuntime;
using ::testing::ThrowsMessage;
using testing::Tolerance;
using testing::values_of;

class DimensionsTest : public ::testing::Test {
 protected:
  Variable leaf(const Shape& shape, std::initializer_list<double> values) {
    return Variable(rt_.tensor(shape, values), true);
  }

  Tensor labels(std::initializer_list<double> values) {
    return rt_.tensor({static_cast<std::int64_t>(values.size())}, values, DType::kI64);
  }

  PlainRuntime rt_;
  Variable rows_ = leaf({2, 3}, {1, 2, 3, 4, 5, 6});
};

TEST_F(DimensionsTest, ARowMeetsEveryRowAndAColumnEveryColumn) {
  EXPECT_THAT(values_of(mul(rows_, leaf({3}, {1, 10, 100})).data()),
              ElementsAre(1, 20, 300, 4, 50, 600));
  EXPECT_THAT(values_of(sub(leaf({2, 1}, {1, 2}), rows_).data()),
              ElementsAre(0, -1, -2, -2, -3, -4));
  const Variable outer = add(leaf({2, 1}, {10, 20}), leaf({3}, {1, 2, 3}));
  EXPECT_EQ(outer.shape(), Shape({2, 3}));
  EXPECT_THAT(values_of(outer.data()), ElementsAre(11, 12, 13, 21, 22, 23));
  EXPECT_THAT(values_of(div(rows_, leaf({}, {2})).data()), ElementsAre(0.5, 1, 1.5, 2, 2.5, 3));
}

TEST_F(DimensionsTest, WhatIsRepeatedGetsTheSumOfTheGradients) {
  const Variable row = leaf({3}, {1, 10, 100});
  const Variable column = leaf({2, 1}, {1, 2});
  sum(mul(add(rows_, row), column)).backward();
  EXPECT_THAT(values_of(row.grad()), ElementsAre(3, 3, 3));
  EXPECT_THAT(values_of(column.grad()), ElementsAre(6 + 111, 15 + 111));
  EXPECT_THAT(values_of(rows_.grad()), ElementsAre(1, 1, 1, 2, 2, 2));
}

TEST_F(DimensionsTest, ShapesThatDoNotGoTogetherAreRefusedAsPyTorchDoes) {
  EXPECT_THAT(
      [&] {
        add(rows_, leaf({2}, {1, 2}));
      },
      ThrowsMessage<ContractViolation>(
          HasSubstr("The size of tensor a (3) must match the size of tensor b (2) at "
                    "non-singleton dimension 1: [2, 3] and [2]")));
  EXPECT_THAT([&] { expand(rows_, {3}); },
              ThrowsMessage<ContractViolation>(HasSubstr("[2, 3] cannot be expanded to [3]")));
  EXPECT_THAT(
      [&] {
        expand(rows_, {1, 3});
      },
      ThrowsMessage<ContractViolation>(HasSubstr("cannot be expanded to [1, 3]")));
  EXPECT_THAT([&] { sum(rows_, 2); },
              ThrowsMessage<ContractViolation>(HasSubstr("[2, 3] has no dimension 2")));
  EXPECT_THAT([&] { mean(leaf({}, {1}), 0); },
              ThrowsMessage<ContractViolation>(HasSubstr("[] has no dimension 0")));
}

TEST_F(DimensionsTest, ADimensionIsSummedAndStaysIfAsked) {
  EXPECT_THAT(values_of(sum(rows_, 0).data()), ElementsAre(5, 7, 9));
  EXPECT_THAT(values_of(sum(rows_, 1).data()), ElementsAre(6, 15));
  EXPECT_EQ(sum(rows_, 1).shape(), Shape({2}));
  EXPECT_EQ(sum(rows_, 1, KeepDim::kYes).shape(), Shape({2, 1}));
  EXPECT_THAT(values_of(mean(rows_, 1).data()), ElementsAre(2, 5));
  EXPECT_EQ(mean(rows_).item(), 3.5);
  const Variable cube = leaf({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_THAT(values_of(sum(cube, 1).data()), ElementsAre(4, 6, 12, 14));
}

TEST_F(DimensionsTest, AFactorOfADimensionThatWasKeptNormalisesRows) {
  const Variable shares = div(rows_, sum(rows_, 1, KeepDim::kYes));
  EXPECT_THAT(values_of(sum(shares, 1).data()), ElementsAre(1, 1));
}

// In f16 1 is lost beside 2048; three of them are not, if the sum is rounded once.
TEST_F(DimensionsTest, ASumIn16BitsIsRoundedOnce) {
  const Variable x(rt_.tensor({1, 4}, {2048, 1, 1, 2}, DType::kF16));
  EXPECT_EQ(sum(x, 1).data().dtype(), DType::kF16);
  EXPECT_THAT(values_of(sum(x, 1).data()), ElementsAre(2052));
}

TEST_F(DimensionsTest, GradientsAreThoseOfDifferences) {
  const std::vector inputs{leaf({2, 3}, {0.5, 1.5, 2, 0.25, 3, 1}), leaf({2, 1}, {0.75, 2})};
  const Tensor truth = labels({2, 0});
  const Tensor weights = rt_.tensor({3}, {0.5, 1, 2});
  const auto expect = [&](const testing::ScalarFunction& f) {
    EXPECT_EQ(compare_gradients(f, inputs, Tolerance::kSmooth, 64), "");
  };
  expect([](const auto& in) { return sum(div(in[0], in[1])); });
  expect([](const auto& in) { return sum(div(in[1], in[0])); });
  expect([](const auto& in) { return sum(mul(exp(in[0]), in[1])); });
  expect([](const auto& in) { return sum(mul(log(in[0]), in[1])); });
  expect([](const auto& in) { return sum(mul(sqrt(in[0]), in[1])); });
  expect([](const auto& in) { return sum(mul(mean(in[0], 0), expand(in[1], {2, 3}))); });
  expect([](const auto& in) { return mul(mean(in[0]), sum(div(in[1], 3.0))); });
  expect([&](const auto& in) {
    return cross_entropy(mul(in[0], in[1]), truth, weights, Reduction::kMean);
  });
}

}  // namespace
}  // namespace lockstep
