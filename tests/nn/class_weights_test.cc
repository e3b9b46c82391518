// Cross entropy whose classes count by weights: values worked out by hand.
#include <cmath>
#include <gmock/gmock.h>
#include <limits>

#include <gtest/gtest.h>

#include "lockstep/base/check.h"
#include "lockstep/nn/losses.h"

#include "tests/support/plain_runtime.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::PlainRuntime;
using ::testing::ThrowsMessage;
using testing::values_of;

class ClassWeightsTest : public ::testing::Test {
 protected:
  Variable leaf(const Shape& shape, std::initializer_list<double> values) {
    return Variable(rt_.tensor(shape, values), true);
  }

  Tensor labels(std::initializer_list<double> values) {
    return rt_.tensor({static_cast<std::int64_t>(values.size())}, values, DType::kI64);
  }

  PlainRuntime rt_;
};

// By hand: weights 1 and 3 of labels 0 and 1; scores of a row are alike, so each costs log 2.
TEST_F(ClassWeightsTest, AClassCountsByItsWeight) {
  const Variable scores = leaf({3, 2}, {0, 0, 0, 0, 0, 0});
  const Tensor weights = rt_.tensor({2}, {1, 3});
  const Tensor truth = labels({0, 1, 1});
  const nn::CrossEntropyLoss mean_loss(weights);
  const Variable loss = mean_loss(scores, truth);
  loss.backward();
  EXPECT_DOUBLE_EQ(loss.item(), std::log(2.0));
  const double share = 0.5 / 7;  // Of 1 + 3 + 3.
  EXPECT_THAT(values_of(scores.grad()),
              ElementsAre(::testing::DoubleEq(-share),
                          ::testing::DoubleEq(share),
                          ::testing::DoubleEq(3 * share),
                          ::testing::DoubleEq(-3 * share),
                          ::testing::DoubleEq(3 * share),
                          ::testing::DoubleEq(-3 * share)));
  EXPECT_DOUBLE_EQ(nn::CrossEntropyLoss(weights, Reduction::kSum)(scores, truth).item(),
                   7 * std::log(2.0));
}

TEST_F(ClassWeightsTest, IgnoredLabelsWeighNothingAndAMeanOfNoneIsNoNumber) {
  const Variable scores = leaf({3, 2}, {0, 0, 5, 1, 0, 0});
  const nn::CrossEntropyLoss loss(rt_.tensor({2}, {1, 3}));
  EXPECT_DOUBLE_EQ(loss(scores, labels({0, -100, 1})).item(), std::log(2.0));
  EXPECT_TRUE(std::isnan(loss(scores, labels({-100, -100, -100})).item()));
}

TEST_F(ClassWeightsTest, AScoreThatIsRuledOutCostsNothing) {
  const double never = -std::numeric_limits<double>::infinity();
  const nn::CrossEntropyLoss loss(rt_.tensor({3}, {1, 3, 2}));
  EXPECT_DOUBLE_EQ(loss(leaf({1, 3}, {0, never, 0}), labels({0})).item(), std::log(2.0));
}

TEST_F(ClassWeightsTest, WeightsAndLabelsThatDoNotFitAreRefused) {
  const nn::CrossEntropyLoss loss(rt_.tensor({2}, {1, 3}));
  EXPECT_THAT(
      [&] {
        loss(leaf({2, 3}, {1, 2, 3, 4, 5, 6}), labels({0, 1}));
      },
      ThrowsMessage<ContractViolation>(
          HasSubstr("for all 3 classes or no classes but got weight tensor of shape: [2]")));
  EXPECT_THAT(
      [&] {
        loss(leaf({1, 2}, {0, 0}), labels({2}));
      },
      ThrowsMessage<ContractViolation>(HasSubstr("Target 2 is out of bounds.")));
  EXPECT_THAT(
      [&] {
        loss(leaf({1, 2}, {0, 0}), labels({0, 1}));
      },
      ThrowsMessage<ContractViolation>(HasSubstr("one label per row of [1, 2]")));
}

}  // namespace
}  // namespace lockstep
