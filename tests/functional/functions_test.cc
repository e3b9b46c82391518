// Values worked out by hand.
#include "lockstep/functional/functions.h"

#include <gmock/gmock.h>

#include <gtest/gtest.h>

#include "lockstep/base/check.h"

#include "tests/support/plain_runtime.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using testing::PlainRuntime;
using testing::values_of;

class FunctionsTest : public ::testing::Test {
 protected:
  Variable leaf(const Shape& shape, std::initializer_list<double> values) {
    return Variable(rt_.tensor(shape, values), true);
  }

  PlainRuntime rt_;
};

TEST_F(FunctionsTest, LinearMultipliesByTheTransposeAndAddsTheBias) {
  const Variable x = leaf({1, 2}, {2, 3});
  const Variable weight = leaf({3, 2}, {1, 0, 0, 1, 10, 100});
  const Variable bias = leaf({3}, {0.5, 0, -1});

  const Variable y = linear(x, weight, bias);

  EXPECT_EQ(y.shape(), Shape({1, 3}));
  EXPECT_THAT(values_of(y.data()), ElementsAre(2.5, 3, 319));
}

// loss = (w x - t)^2 with w = 2, x = 3, t = 5: 1; d/dw = 2 (w x - t) x = 6.
TEST_F(FunctionsTest, ASquaredErrorPullsTheWeight) {
  const Variable w = leaf({1, 1}, {2});
  const Variable x(rt_.tensor({1, 1}, {3}));

  const Variable loss = mse_loss(linear(x, w, Variable()), rt_.tensor({1, 1}, {5}));
  loss.backward();

  EXPECT_EQ(loss.item(), 1.0);
  EXPECT_THAT(values_of(w.grad()), ElementsAre(6));
}

// Absolute errors |1-3| + |5-5| + |4-1| + |0-1| = 6, mean 1.5; signs -, 0, +, - over four elements.
TEST_F(FunctionsTest, AnAbsoluteErrorGivesTheSignOverTheCount) {
  const Variable x = leaf({2, 2}, {1, 5, 4, 0});

  const Variable loss = l1_loss(x, rt_.tensor({2, 2}, {3, 5, 1, 1}));
  loss.backward();

  EXPECT_EQ(loss.item(), 1.5);
  EXPECT_THAT(values_of(x.grad()), ElementsAre(-0.25, 0, 0.25, -0.25));
}

// Equal logits of four classes: -log(1/4) each, gradient (1/4 - [label]) / batch.
TEST_F(FunctionsTest, EqualLogitsHaveTheLogOfTheirNumberAsCrossEntropy) {
  const Variable x = leaf({2, 4}, {0, 0, 0, 0, 0, 0, 0, 0});

  const Variable loss = cross_entropy(x, rt_.tensor({2}, {1, 3}, DType::kI64));
  loss.backward();

  EXPECT_DOUBLE_EQ(loss.item(), std::log(4.0));
  EXPECT_THAT(values_of(x.grad()),
              ElementsAre(0.125, -0.375, 0.125, 0.125, 0.125, 0.125, 0.125, -0.375));
}

TEST_F(FunctionsTest, ReluStopsTheGradientAtZeroAndBelow) {
  const Variable x = leaf({3}, {-1, 0, 2});

  const Variable y = relu(x);
  sum(y).backward();

  EXPECT_THAT(values_of(y.data()), ElementsAre(0, 0, 2));
  EXPECT_THAT(values_of(x.grad()), ElementsAre(0, 0, 1));
}

// Column {1, 3}: mean 2, biased variance 1; the running variance takes the unbiased 2.
TEST_F(FunctionsTest, BatchNormMovesItsRunningStatisticsInTrainingOnly) {
  const Variable x(rt_.tensor({2, 1}, {1, 3}));
  const Variable weight = leaf({1}, {2});
  const Variable bias = leaf({1}, {10});
  const BatchNormBuffers buffers{.running_mean = rt_.tensor({1}, {0}),
                                 .running_var = rt_.tensor({1}, {1})};

  const Variable trained =
      batch_norm(x, weight, bias, buffers, {.momentum = 0.5, .eps = 0, .training = true});

  EXPECT_THAT(values_of(trained.data()), ElementsAre(8, 12));
  EXPECT_THAT(values_of(buffers.running_mean), ElementsAre(1));
  EXPECT_THAT(values_of(buffers.running_var), ElementsAre(1.5));

  batch_norm(x, weight, bias, buffers, {.momentum = 0.5, .eps = 0, .training = false});

  EXPECT_THAT(values_of(buffers.running_mean), ElementsAre(1));
}

TEST_F(FunctionsTest, ShapesThatDoNotFitAreNamed) {
  const Variable x = leaf({2, 3}, {1, 2, 3, 4, 5, 6});
  const Variable w = leaf({2, 2}, {1, 2, 3, 4});

  EXPECT_THAT([&] { linear(x, w, Variable()); },
              ::testing::ThrowsMessage<ContractViolation>(::testing::HasSubstr(
                  "linear cannot multiply [2, 3] by the transpose of [2, 2]")));
  EXPECT_THROW(add(x, w), ContractViolation);
  EXPECT_THROW(mse_loss(x, w.data()), ContractViolation);
  EXPECT_THROW(linear(x, x, w), ContractViolation);
  EXPECT_THROW(cross_entropy(x, rt_.tensor({3}, {0, 0, 0}, DType::kI64)), ContractViolation);
  EXPECT_THROW(reshape(x, {4}), ContractViolation);
}

}  // namespace
}  // namespace lockstep
