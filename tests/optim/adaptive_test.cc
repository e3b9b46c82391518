// Adam, AdamW, Adagrad and RMSprop by hand, their arguments, their state.
#include <gmock/gmock.h>
#include <stdexcept>

#include <gtest/gtest.h>

#include "lockstep/optim/adagrad.h"
#include "lockstep/optim/adam.h"
#include "lockstep/optim/rmsprop.h"
#include "lockstep/tensor/kernels.h"

#include "tests/support/plain_runtime.h"

namespace lockstep::optim {
namespace {

using lockstep::testing::PlainRuntime;
using lockstep::testing::values_of;
using ::testing::ElementsAre;
using ::testing::ThrowsMessage;
using Invalid = std::invalid_argument;

class AdaptiveTest : public ::testing::Test {
 protected:
  Variable leaf(double value, double grad) {
    const Variable parameter(rt_.tensor({1}, {value}), true);
    parameter.set_grad(rt_.tensor({1}, {grad}));
    return parameter;
  }

  PlainRuntime rt_;
};

// Gradient 2: mean 1, square 1; corrected by 1/2 and 1/4 they are 2 and 4, so one step is all of
// lr. Without the correction of the mean it would be half of it.
TEST_F(AdaptiveTest, TheFirstStepOfAdamIsTheLearningRate) {
  const Variable p = leaf(4, 2);
  Adam adam({p}, {.lr = 0.5, .beta1 = 0.5, .beta2 = 0.75, .eps = 0.0});

  adam.step();

  EXPECT_EQ(p.item(), 3.5);
  EXPECT_NE(p.item(), 3.75);
  EXPECT_EQ(adam.state()[0].tensors[0].item(), 1.0);
  EXPECT_EQ(adam.state()[1].tensors[0].item(), 1.0);
  EXPECT_EQ(adam.state()[2].tensors[0].item(), 1.0);
}

// The decay first makes 4 * (1 - 1/8) = 3.5 and stays out of the moments.
TEST_F(AdaptiveTest, AdamWDecaysTheParameterNotTheGradient) {
  const Variable p = leaf(4, 2);
  AdamW adam({p}, {.lr = 0.5, .beta1 = 0.5, .beta2 = 0.75, .eps = 0.0, .weight_decay = 0.25});

  adam.step();

  EXPECT_EQ(p.item(), 3.0);
  EXPECT_EQ(adam.state()[1].tensors[0].item(), 1.0);
}

// PyTorch's two defaults differ: 0 for Adam, 0.01 for AdamW. A gradient of 0 leaves the decay alone:
// 4 - 4 * 0.5 * 0.01.
TEST_F(AdaptiveTest, AdamWDecaysByDefaultAsInPyTorch) {
  const Variable plain = leaf(4, 0);
  Adam adam({plain}, {.lr = 0.5});
  adam.step();
  EXPECT_EQ(plain.item(), 4.0);

  const Variable decayed = leaf(4, 0);
  AdamW adamw({decayed}, {.lr = 0.5});
  adamw.step();
  EXPECT_NEAR(decayed.item(), 3.98, 1e-6);
}

// Sums of squares 9, then 9 + 16: steps of 1/2 * 3/3 and 1/2 / (1 + 1) * 4/5.
TEST_F(AdaptiveTest, AdagradEqualsTheStepsComputedByHand) {
  const Variable p = leaf(4, 3);
  Adagrad adagrad({p}, {.lr = 0.5, .lr_decay = 1.0, .eps = 0.0});
  EXPECT_EQ(adagrad.state()[1].tensors[0].item(), 0.0);

  adagrad.step();
  EXPECT_EQ(p.item(), 3.5);

  p.set_grad(rt_.tensor({1}, {4}));
  adagrad.step();
  EXPECT_EQ(p.item(), 3.5 + (-0.25 * 4) / 5.0);
}

// Square average 3/4 * 0 + 1/4 * 16 = 4, root 2: 4 - 1/2 * 4 / 2.
TEST_F(AdaptiveTest, RmspropEqualsTheStepsComputedByHand) {
  const Variable p = leaf(4, 4);
  Rmsprop rmsprop({p}, {.lr = 0.5, .alpha = 0.75, .eps = 0.0});

  rmsprop.step();

  EXPECT_EQ(p.item(), 3.0);
}

TEST_F(AdaptiveTest, CountsAreNotRoundedToTheGrid) {
  const Variable p = leaf(1, 1);
  Adam adam({p}, {});
  adam.round_each_step({.bits = 1, .limit = 2.0});

  for (int step = 0; step < 5; ++step) adam.step();

  EXPECT_EQ(adam.state()[0].tensors[0].item(), 5.0);
}

TEST_F(AdaptiveTest, ParametersWithoutGradientDoNotCount) {
  const Variable p = leaf(1, 1);
  p.set_grad(Tensor());
  Adam adam({p}, {});

  adam.step();

  EXPECT_EQ(p.item(), 1.0);
  EXPECT_FALSE(adam.state()[0].tensors[0].defined());
}

TEST_F(AdaptiveTest, StateHasTheNamesOfPyTorch) {
  const Variable p = leaf(1, 1);
  const auto names = [](const Optimizer& optimizer) {
    std::vector<std::string> all;
    for (const StateList& list : optimizer.state()) all.push_back(list.name);
    return all;
  };

  EXPECT_THAT(names(Adam({p}, {.amsgrad = true})),
              ElementsAre("step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"));
  EXPECT_THAT(names(Adagrad({p}, {})), ElementsAre("step", "sum"));
  EXPECT_THAT(names(Rmsprop({p}, {.momentum = 0.5, .centered = true})),
              ElementsAre("step", "square_avg", "momentum_buffer", "grad_avg"));
}

TEST_F(AdaptiveTest, ArgumentsAreRefusedInPyTorchsWords) {
  const Variable p = leaf(1, 1);
  const auto adam = [&p](const AdamOptions& o) { return [&p, o] { const Adam a({p}, o); }; };
  const auto rms = [&p](const RmspropOptions& o) { return [&p, o] { const Rmsprop r({p}, o); }; };
  const auto ada = [&p](const AdagradOptions& o) { return [&p, o] { const Adagrad a({p}, o); }; };

  EXPECT_THAT(adam({.lr = -1}), ThrowsMessage<Invalid>("Invalid learning rate: -1"));
  EXPECT_THAT(adam({.beta1 = 1}), ThrowsMessage<Invalid>("Invalid beta parameter at index 0: 1"));
  EXPECT_THAT(adam({.beta2 = -2}), ThrowsMessage<Invalid>("Invalid beta parameter at index 1: -2"));
  EXPECT_THAT(adam({.eps = -1}), ThrowsMessage<Invalid>("Invalid epsilon value: -1"));
  EXPECT_THAT(rms({.alpha = -1}), ThrowsMessage<Invalid>("Invalid alpha value: -1"));
  EXPECT_THAT(rms({.momentum = -1}), ThrowsMessage<Invalid>("Invalid momentum value: -1"));
  EXPECT_THAT(ada({.lr_decay = -1}), ThrowsMessage<Invalid>("Invalid lr_decay value: -1"));
  EXPECT_THAT(ada({.initial_accumulator_value = -1}),
              ThrowsMessage<Invalid>("Invalid initial_accumulator_value value: -1"));
}

TEST_F(AdaptiveTest, UnscalingReportsInfinities) {
  const Tensor fine = rt_.tensor({2}, {4, -8});
  const Tensor bad = rt_.tensor({2}, {4, -1.0 / 0.0});

  EXPECT_FALSE(rt_.kernels().unscale(fine, 0.25));
  EXPECT_THAT(values_of(fine), ElementsAre(1, -2));
  EXPECT_TRUE(rt_.kernels().unscale(bad, 0.25));
}

}  // namespace
}  // namespace lockstep::optim
