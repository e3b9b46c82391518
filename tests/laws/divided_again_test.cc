// Averages that are divided by the number of ranks once more: advice of norm-true.
#include <gtest/gtest.h>

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::DdpJob;

/// A job of two ranks whose steps use the average divided by `divisor`.
struct Division {
  double divisor = 2.0;
  int n_steps = 3;
  double last_divisor = divisor;
  int n_micro = 1;
  bool synchronizes = true;
  HookEffect effect = HookEffect::kMean;
  double scale = 1.0;
};

LawResult norm_true(const Division& given) {
  DdpJob job(2);
  job.wrap(given.synchronizes);
  for (const std::int32_t rank : {0, 1}) {
    job.at(rank);
    job.stream.add(rank, CommHookEvent{.effect = given.effect});
  }
  for (int step = 0; step < given.n_steps; ++step) {
    const double by = step + 1 == given.n_steps ? given.last_divisor : given.divisor;
    for (const std::int32_t rank : {0, 1}) {
      for (int micro = 0; micro < given.n_micro; ++micro) job.forward(rank);
      job.reduce(rank, 1.0 + 2.0 * rank, 1.0 + 2.0 * rank, 2.0);
      job.grad(rank, GradPoint::kUsed, 2.0 / by);
      job.stream.add(rank, StepEvent{.lr = 1.0, .scale = given.scale, .layout = job.layout()});
      ++job.at(rank).opt;
      job.at(rank).micro = -1;
    }
  }
  return check("norm-true", job.stream);
}

TEST(DividedAgainTest, IsAdvisedAgainstWhereEveryStepDoesIt) {
  const LawResult result = norm_true({});
  EXPECT_TRUE(result.findings.empty());
  ASSERT_EQ(result.advice.size(), 1U);
  EXPECT_EQ(result.advice[0].id, "A-divided-again");
  EXPECT_EQ(result.advice[0].message,
            "all 3 steps used the averaged gradients divided by 2, the number of ranks, once more: "
            "the wrapper divides by it already");
}

TEST(DividedAgainTest, AverageThatIsUsedAsItIsOrTimesAnotherFactorIsFine) {
  EXPECT_TRUE(norm_true({.divisor = 1.0}).advice.empty());
  EXPECT_TRUE(norm_true({.divisor = 4.0}).advice.empty());
}

TEST(DividedAgainTest, OneStepShowsNoHabit) {
  EXPECT_TRUE(norm_true({.n_steps = 1}).advice.empty());
  EXPECT_TRUE(norm_true({.last_divisor = 1.0}).advice.empty());
  EXPECT_FALSE(norm_true({.n_steps = 2}).advice.empty());
}

// Micro-steps as many as ranks; a loss scale that is the number of ranks.
TEST(DividedAgainTest, WhatElseTheProgramMayDivideByIsNotTheNumberOfRanks) {
  EXPECT_TRUE(norm_true({.n_micro = 2}).advice.empty());
  EXPECT_FALSE(norm_true({.n_micro = 3}).advice.empty());
  EXPECT_TRUE(norm_true({.scale = 2.0}).advice.empty());
}

TEST(DividedAgainTest, SumsAreForTheProgramToDivide) {
  EXPECT_TRUE(norm_true({.effect = HookEffect::kOther}).advice.empty());
  EXPECT_FALSE(norm_true({.effect = HookEffect::kRounded}).advice.empty());
  EXPECT_TRUE(norm_true({.synchronizes = false}).advice.empty());
}

}  // namespace
}  // namespace lockstep
