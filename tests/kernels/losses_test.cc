#include <cmath>

#include <gtest/gtest.h>

#include "tests/support/test_runtime.h"

namespace lockstep {
namespace {

using testing::TestRuntime;
using testing::values_of;
using Values = std::vector<double>;

class LossesTest : public ::testing::TestWithParam<DType> {
 protected:
  Tensor make(const Shape& shape, const Values& values) {
    return Tensor::of(test_.runtime, shape, GetParam(), values);
  }

  Tensor scalar(double value = 0.0) { return make({}, {value}); }

  Tensor labels(const Values& values) {
    return Tensor::of(
        test_.runtime, {static_cast<std::int64_t>(values.size())}, DType::kI64, values);
  }

  Kernels& kernels() { return *test_.kernels; }

  double unit() const { return GetParam() == DType::kF32 ? 0x1p-24 : 0x1p-53; }

  TestRuntime test_;
};

TEST_P(LossesTest, MseIsTheMeanOfSquares) {
  const Tensor x = make({4}, {1, 2, 3, 4});
  const Tensor target = make({4}, {1, 0, 6, 3});
  const Tensor loss = scalar();
  const Tensor grad = make({4}, {0, 0, 0, 0});

  kernels().mse(loss, x, target, 4.0);  // (0 + 4 + 9 + 1) / 4
  kernels().mse_backward(grad, scalar(2.0), x, target, 4.0);

  EXPECT_EQ(loss.item(), 3.5);
  EXPECT_EQ(values_of(grad), (Values{0, 2, -3, 1}));
}

TEST_P(LossesTest, WhatASoftmaxWritesToHasItsInputsSize) {
  const Tensor x = make({2, 2}, {1, 2, 3, 4});

  for (const std::int64_t n : {3, 5}) {
    const Tensor out = Tensor::zeros(test_.runtime, {n}, GetParam());
    EXPECT_THROW(kernels().softmax(out, x, {}), ContractViolation) << n;
  }
}

TEST_P(LossesTest, L1HasNoGradientWhereItIsZero) {
  const Tensor x = make({4}, {1, 2, 3, 4});
  const Tensor target = make({4}, {1, 0, 6, 3});
  const Tensor loss = scalar();
  const Tensor grad = make({4}, {9, 9, 9, 9});

  kernels().l1(loss, x, target, 4.0);  // (0 + 2 + 3 + 1) / 4
  kernels().l1_backward(grad, scalar(2.0), x, target, 4.0);

  EXPECT_EQ(loss.item(), 1.5);
  EXPECT_EQ(values_of(grad), (Values{0, 0.5, -0.5, 0.5}));
}

// Equal scores give probability 1 / C, so the loss is log C and the gradient is 1 / C, less 1 at
// the label, over B.
TEST_P(LossesTest, EqualScoresHaveTheLogOfTheirNumberAsCrossEntropy) {
  const Tensor x = make({2, 4}, {7, 7, 7, 7, -3, -3, -3, -3});
  const Tensor loss = scalar();
  const Tensor log_probs = make({2, 4}, Values(8));
  const Tensor grad = make({2, 4}, Values(8));

  kernels().cross_entropy(loss, log_probs, x, labels({1, 3}), 2.0);
  kernels().cross_entropy_backward(grad, scalar(1.0), log_probs, labels({1, 3}), 2.0);

  EXPECT_NEAR(loss.item(), std::log(4.0), 4 * unit() * std::log(4.0));
  for (std::int64_t i = 0; i < 8; ++i) {
    const double expected = i == 1 || i == 7 ? -0.375 : 0.125;
    EXPECT_NEAR(grad.at(i), expected, 8 * unit()) << i;
  }
}

// One score so much larger that the others' probability underflows: loss 0, and no overflow.
TEST_P(LossesTest, CrossEntropySurvivesLargeScores) {
  const Tensor x = make({1, 3}, {10000, -10000, 0});
  const Tensor loss = scalar();
  const Tensor log_probs = make({1, 3}, Values(3));
  const Tensor grad = make({1, 3}, Values(3));

  kernels().cross_entropy(loss, log_probs, x, labels({0}), 1.0);
  kernels().cross_entropy_backward(grad, scalar(1.0), log_probs, labels({0}), 1.0);

  EXPECT_EQ(loss.item(), 0.0);
  EXPECT_EQ(values_of(grad), (Values{0, 0, 0}));
}

TEST_P(LossesTest, ALabelOutsideTheClassesIsRefused) {
  const Tensor x = make({1, 3}, {1, 2, 3});

  EXPECT_THROW(kernels().cross_entropy(scalar(), x, x, labels({3}), 1.0), ContractViolation);
  EXPECT_THROW(kernels().cross_entropy(scalar(), x, x, labels({-1}), 1.0), ContractViolation);
}

// Column 0 holds 1 and 5: mean 3, biased variance 4, unbiased 8. With eps = 0 it becomes -1 and 1.
TEST_P(LossesTest, BatchNormStandardisesColumnsAndMovesItsStatistics) {
  const std::vector<Tensor> in = {
      make({2, 2}, {1, 10, 5, 10.5}), make({2}, {2, 1}), make({2}, {0.5, 0})};
  const std::vector<Tensor> running = {make({2}, {1, 0}), make({2}, {4, 1})};
  const std::vector<Tensor> saved = {make({2}, {0, 0}), make({2}, {0, 0})};
  const Tensor out = make({2, 2}, Values(4));

  kernels().batch_norm(out, in, running, saved, {.momentum = 0.5, .eps = 0.0, .training = true});

  EXPECT_EQ(values_of(out), (Values{-1.5, -1, 2.5, 1}));
  EXPECT_EQ(values_of(running[0]), (Values{2, 5.125}));
  EXPECT_EQ(values_of(running[1]), (Values{6, 0.5625}));
  EXPECT_EQ(values_of(saved[0]), (Values{3, 10.25}));
  EXPECT_EQ(values_of(saved[1]), (Values{0.5, 4}));
}

TEST_P(LossesTest, BatchNormInEvaluationUsesTheRunningStatistics) {
  const std::vector<Tensor> in = {make({1, 1}, {7})};
  const std::vector<Tensor> running = {make({1}, {3}), make({1}, {4})};
  const Tensor out = make({1, 1}, {0});

  kernels().batch_norm(out, in, running, {}, {.eps = 0.0, .training = false});

  EXPECT_EQ(out.item(), 2.0);
  EXPECT_EQ(running[0].item(), 3.0);
}

TEST_P(LossesTest, ABatchOfOneRowHasNoVariance) {
  const std::vector<Tensor> in = {make({1, 1}, {7})};

  EXPECT_THROW(kernels().batch_norm(in[0], in, {}, {}, {.training = true}), ContractViolation);
}

// x_hat = (-1, 1), g = (1, 3): sum 4, dot 2, so grad_x = (g - 2 - x_hat) * 2 * 0.5 = (0, 0); a
// third row would leave something over. Two rows always give 0: the output depends only on their
// order.
TEST_P(LossesTest, BatchNormBackwardOfTwoRowsFollowsTheFormula) {
  const std::vector<Tensor> in = {make({2, 1}, {1, 3}), make({2, 1}, {1, 5}), make({1}, {2})};
  const std::vector<Tensor> saved = {make({1}, {3}), make({1}, {0.5})};
  const std::vector<Tensor> grads = {make({2, 1}, {9, 9}), make({1}, {9}), make({1}, {9})};

  kernels().batch_norm_backward(grads, in, saved);

  EXPECT_EQ(values_of(grads[0]), (Values{0, 0}));
  EXPECT_EQ(grads[1].item(), 2.0);
  EXPECT_EQ(grads[2].item(), 4.0);
}

// x = (-2, 0, 0, 2), mean 0, variance 2; with invstd given as 1 the formula reads
// grad_x = g - mean(g) - x * mean(g * x): g = (4, 0, 0, 0) gives 4 - 1 - 4, -1, -1, -1 + 4.
TEST_P(LossesTest, BatchNormBackwardOfFourRowsFollowsTheFormula) {
  const std::vector<Tensor> in = {make({4, 1}, {4, 0, 0, 0}), make({4, 1}, {-2, 0, 0, 2})};
  const std::vector<Tensor> saved = {make({1}, {0}), make({1}, {1})};
  const std::vector<Tensor> grads = {make({4, 1}, Values(4))};

  kernels().batch_norm_backward(grads, in, saved);

  EXPECT_EQ(values_of(grads[0]), (Values{-1, -1, -1, 3}));
}

INSTANTIATE_TEST_SUITE_P(Floats,
                         LossesTest,
                         ::testing::Values(DType::kF32, DType::kF64),
                         [](const auto& suite) { return std::string(name_of(suite.param)); });

}  // namespace
}  // namespace lockstep
