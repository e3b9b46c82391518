// What the golden file does not show: steps to an epoch, refusals, foreign state.
#include "lockstep/optim/lr_scheduler.h"

#include <gmock/gmock.h>

#include "lockstep/optim/adagrad.h"
#include "lockstep/optim/sgd.h"

#include "tests/support/plain_runtime.h"

namespace lockstep::optim {
namespace {

using lockstep::testing::PlainRuntime;
using ::testing::ThrowsMessage;
using Invalid = std::invalid_argument;

class LrSchedulerTest : public ::testing::Test {
 protected:
  auto starting(LrRule rule) {
    return [this, rule] { const RuleLr schedule(sgd_, rule); };
  }

  PlainRuntime rt_;
  Sgd sgd_{{Variable(rt_.tensor({1}, {0.0}), true)}, {.lr = 1.0}};
};

TEST_F(LrSchedulerTest, ParametersThatMakeNoSenseAreRefusedInPyTorchsWords) {
  EXPECT_THAT(
      starting(ConstantLr{.factor = 1.5}),
      ThrowsMessage<Invalid>("Constant multiplicative factor expected to be between 0 and 1."));
  EXPECT_THAT(
      starting(LinearLr{.start_factor = -0.5}),
      ThrowsMessage<Invalid>("Starting multiplicative factor expected to be between 0 and 1."));
  EXPECT_THAT(
      starting(LinearLr{.end_factor = 2.0}),
      ThrowsMessage<Invalid>("Ending multiplicative factor expected to be between 0 and 1."));
  EXPECT_THAT(starting(CosineAnnealingWarmRestarts{.t_0 = 0}),
              ThrowsMessage<Invalid>("Expected positive integer T_0, but got 0"));
  EXPECT_THAT(starting(CosineAnnealingWarmRestarts{.t_0 = 1, .t_mult = 0}),
              ThrowsMessage<Invalid>("Expected integer T_mult >= 1, but got 0"));
  EXPECT_THAT(starting(OneCycleLr{.max_lr = {1.0}, .total_steps = 9, .pct_start = 1.5}),
              ThrowsMessage<Invalid>("Expected float between 0 and 1 pct_start, but got 1.5"));
  EXPECT_THAT(starting(OneCycleLr{.max_lr = {1.0, 2.0}, .total_steps = 9}),
              ThrowsMessage<Invalid>("expected 1 values for max_lr, got 2"));
  EXPECT_THAT(starting(LambdaLr{}), ThrowsMessage<Invalid>("Expected 1 lr_lambdas, but got 0"));
}

TEST_F(LrSchedulerTest, ACycleNeedsAMomentumUnlessItLeavesThatAlone) {
  Adagrad adagrad({Variable(rt_.tensor({1}, {0.0}), true)}, {});
  OneCycleLr rule{.max_lr = {1.0}, .total_steps = 9};

  EXPECT_THAT([&] { RuleLr(adagrad, rule); },
              ThrowsMessage<Invalid>(
                  "optimizer must support momentum with `cycle_momentum` option enabled"));
  rule.cycle_momentum = false;
  RuleLr(adagrad, rule);
  EXPECT_NEAR(adagrad.lr(), 1.0 / 25.0, 1e-15);
}

TEST_F(LrSchedulerTest, ACycleEndsAfterItsLastStep) {
  RuleLr cycle(sgd_, OneCycleLr{.max_lr = {1.0}, .total_steps = 10});
  for (int i = 0; i < 10; ++i) cycle.step();

  EXPECT_THAT(
      [&] { cycle.step(); },
      ThrowsMessage<Invalid>("Tried to step 12 times. The specified number of total steps is 10"));
}

// A momentum that a cycle switches on gets its buffer: 0.95 at first, the gradient copied undamped.
TEST_F(LrSchedulerTest, ACycleSwitchesMomentumOn) {
  RuleLr cycle(sgd_, OneCycleLr{.max_lr = {1.0}, .total_steps = 10});
  sgd_.parameters()[0].set_grad(rt_.tensor({1}, {1.0}));
  sgd_.step();
  sgd_.step();

  ASSERT_EQ(sgd_.state().size(), 1U);
  EXPECT_EQ(sgd_.state()[0].tensors[0].item(), 0.95 + 1.0);
}

TEST_F(LrSchedulerTest, WarmRestartsKnowPartsOfEpochs) {
  RuleLr restarts(sgd_, CosineAnnealingWarmRestarts{.t_0 = 2, .t_mult = 2});

  restarts.step_to(4.0);  // In the second period, 2 to 6, half-way.
  EXPECT_DOUBLE_EQ(sgd_.lr(), 0.5);
  restarts.step_to(1.5);
  EXPECT_DOUBLE_EQ(sgd_.lr(), (1 - std::sqrt(0.5)) / 2);
  EXPECT_THAT([&] { restarts.step_to(-1.0); },
              ThrowsMessage<Invalid>("Expected non-negative epoch, but got -1"));
}

TEST_F(LrSchedulerTest, PartsAndMilestonesMustFit) {
  EXPECT_THAT(
      [this] {
        SequentialLr(sgd_, {StepLr{}, StepLr{}}, {});
      },
      ThrowsMessage<Invalid>(
          "Sequential Schedulers expects number of schedulers provided to be one more than "
          "the number of milestone points, but got number of schedulers 2 and the number "
          "of milestones to be equal to 0"));
}

TEST_F(LrSchedulerTest, StateOfAnotherKindOfSchedulerIsRefused) {
  RuleLr step(sgd_, StepLr{});
  const SequentialLr sequence(sgd_, {StepLr{}, StepLr{}}, {3});

  EXPECT_THAT(
      [&] { step.load_state(sequence.state()); },
      ThrowsMessage<Invalid>(
          "this state was saved by something else: it has last_epoch, 0/last_epoch, 0/T_cur, "
          "0/T_i, 0/base_lrs.0, 1/last_epoch, 1/T_cur, 1/T_i, 1/base_lrs.0, where last_epoch, "
          "T_cur, T_i, base_lrs.0 is expected"));
}

/// "made of total" for each of the optimizer's groups, or nothing where no schedule says how long it is.
std::string progress_of(const Optimizer& optimizer) {
  std::string text;
  for (const Group& group : optimizer.groups()) {
    if (group.schedule.total == 0) continue;
    text += std::to_string(group.schedule.made) + " of " + std::to_string(group.schedule.total);
  }
  return text;
}

TEST_F(LrSchedulerTest, ARuleSaysHowFarItHasCome) {
  RuleLr schedule(sgd_, LinearLr{.total_iters = 2});
  EXPECT_EQ(progress_of(sgd_), "0 of 2");
  schedule.step();
  EXPECT_EQ(progress_of(sgd_), "1 of 2");
  schedule.step();
  schedule.step();
  EXPECT_EQ(progress_of(sgd_), "2 of 2");
}

TEST_F(LrSchedulerTest, EachRuleWithAnEndSaysHowLongItIs) {
  const auto planned = [this](const LrRule& rule) {
    const RuleLr schedule(sgd_, rule);
    return progress_of(sgd_);
  };
  EXPECT_EQ(planned(ConstantLr{.total_iters = 3}), "0 of 3");
  EXPECT_EQ(planned(PolynomialLr{.total_iters = 4}), "0 of 4");
  EXPECT_EQ(planned(CosineAnnealingLr{.t_max = 5}), "0 of 5");
  EXPECT_EQ(planned(OneCycleLr{.max_lr = {1.0}, .total_steps = 6, .cycle_momentum = false}),
            "0 of 6");
  EXPECT_EQ(planned(StepLr{}), "");
  EXPECT_EQ(planned(CosineAnnealingWarmRestarts{}), "");
}

TEST_F(LrSchedulerTest, ASequenceIsAsLongAsItsLastRuleGoes) {
  SequentialLr sequence(sgd_, {LinearLr{.total_iters = 2}, CosineAnnealingLr{.t_max = 5}}, {2});
  EXPECT_EQ(progress_of(sgd_), "0 of 7");
  for (int i = 0; i < 3; ++i) sequence.step();
  EXPECT_EQ(progress_of(sgd_), "3 of 7");
  const SequentialLr one(sgd_, {LinearLr{.total_iters = 2}}, {});
  EXPECT_EQ(progress_of(sgd_), "0 of 2");
  const SequentialLr endless(sgd_, {LinearLr{.total_iters = 2}, StepLr{}}, {2});
  EXPECT_EQ(progress_of(sgd_), "");
}

TEST_F(LrSchedulerTest, ChainedSchedulersReportNoTotalLength) {
  ChainedLr chain(sgd_, {LinearLr{.total_iters = 2}});
  chain.step();
  EXPECT_EQ(progress_of(sgd_), "");
}

}  // namespace
}  // namespace lockstep::optim
