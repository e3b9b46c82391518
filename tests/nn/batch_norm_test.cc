// Batch norm layers: which statistics they keep, by hand; operations are compared in
// ops_golden_test.cc.
#include "lockstep/nn/batch_norm.h"

#include <cmath>

#include <gtest/gtest.h>

#include "lockstep/nn/convolution.h"
#include "lockstep/nn/pooling.h"

#include "tests/support/plain_runtime.h"

namespace lockstep::nn {
namespace {

using lockstep::testing::PlainRuntime;
using lockstep::testing::values_of;

std::vector<std::string> names_of(const std::vector<NamedVariable>& variables) {
  std::vector<std::string> names;
  for (const NamedVariable& one : variables) names.push_back(one.name);
  return names;
}

class BatchNormTest : public ::testing::Test {
 protected:
  Variable column(std::initializer_list<double> values) {
    return Variable(rt_.tensor({static_cast<std::int64_t>(values.size()), 1}, values));
  }

  static double buffer(const Module& module, std::size_t i) {
    return module.named_buffers()[i].variable.data().item();
  }

  PlainRuntime rt_;
};

TEST_F(BatchNormTest, RunningStatisticsMoveByTheMomentum) {
  BatchNorm1d layer(rt_, 1, {.momentum = 0.5, .dtype = DType::kF64});

  layer.forward(column({0, 2}));  // Mean 1, unbiased variance 2.

  EXPECT_EQ(buffer(layer, 0), 0.5);  // From 0.
  EXPECT_EQ(buffer(layer, 1), 1.5);  // From 1; with the biased variance it would stay 1.
  EXPECT_EQ(buffer(layer, 2), 1.0);
}

TEST_F(BatchNormTest, RunningStatisticsWithoutMomentumAreTheAverageOverAllBatches) {
  BatchNorm1d layer(rt_, 1, {.momentum = std::nullopt, .dtype = DType::kF64});

  layer.forward(column({0, 2}));  // Mean 1, variance 2.
  layer.forward(column({1, 5}));  // Mean 3, variance 8.

  EXPECT_EQ(buffer(layer, 0), 2.0);
  EXPECT_EQ(buffer(layer, 1), 5.0);
  EXPECT_EQ(buffer(layer, 2), 2.0);
}

TEST_F(BatchNormTest, EvaluationUsesRunningStatisticsAndMovesNothing) {
  BatchNorm1d layer(rt_, 1, {.eps = 0.0, .momentum = 1.0, .dtype = DType::kF64});
  layer.forward(column({-2.0, 2.0, -2.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0}));  // Mean 0, variance 2.
  layer.eval();

  const Variable y = layer.forward(column({3, 5}));

  EXPECT_NEAR(
      y.data().at(0), 3.0 / std::sqrt(2.0), 0x1p-51);  // Three roundings of a number below 4.
  EXPECT_EQ(buffer(layer, 0), 0.0);
  EXPECT_EQ(buffer(layer, 2), 1.0);
}

TEST_F(BatchNormTest, WithoutRunningStatisticsEvaluationUsesTheBatch) {
  BatchNorm1d layer(rt_, 1, {.track_running_stats = false, .dtype = DType::kF64});
  const std::vector<double> training = values_of(layer.forward(column({0, 2, 7})).data());
  layer.eval();

  const Variable y = layer.forward(column({0, 2, 7}));

  EXPECT_TRUE(layer.named_buffers().empty());
  EXPECT_EQ(values_of(y.data()), training);
}

TEST_F(BatchNormTest, WithoutWeightsThereIsNothingToTrain) {
  const BatchNorm2d layer(rt_, 3, {.affine = false});

  EXPECT_TRUE(layer.named_parameters().empty());
  EXPECT_EQ(names_of(layer.named_buffers()),
            (std::vector<std::string>{"running_mean", "running_var", "num_batches_tracked"}));
}

TEST_F(BatchNormTest, EachFormTakesItsOwnShapes) {
  BatchNorm1d rows(rt_, 1, {.dtype = DType::kF64});
  BatchNorm2d images(rt_, 1, {.dtype = DType::kF64});
  const Variable image(rt_.tensor({1, 1, 1, 2}, {0, 2}));

  EXPECT_THROW(rows.forward(image), ContractViolation);
  EXPECT_THROW(images.forward(column({0, 2})), ContractViolation);
  images.forward(image);
  EXPECT_EQ(buffer(images, 2), 1.0);
}

TEST_F(BatchNormTest, ConvolutionsHaveTorchsNamesAndShapes) {
  const Conv2d layer(rt_, 3, 8, {.kernel = 5, .kernel_width = 2});
  const std::vector<NamedVariable> parameters = layer.named_parameters();

  EXPECT_EQ(names_of(parameters), (std::vector<std::string>{"weight", "bias"}));
  EXPECT_EQ(parameters[0].variable.shape(), Shape({8, 3, 5, 2}));
  EXPECT_EQ(parameters[1].variable.shape(), Shape({8}));
}

TEST_F(BatchNormTest, FlattenAndUnflattenAreInverse) {
  const Variable rows(rt_.tensor({2, 6}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));

  const Variable images = Unflatten(rt_, {1, 2, 3}).forward(rows);
  const Variable back = Flatten(rt_).forward(images);

  EXPECT_EQ(images.shape(), Shape({2, 1, 2, 3}));
  EXPECT_EQ(back.shape(), rows.shape());
  EXPECT_EQ(values_of(back.data()), values_of(rows.data()));
}

}  // namespace
}  // namespace lockstep::nn
