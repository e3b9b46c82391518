// Laws about jobs whose wrappers do not reduce on purpose: ranks train alone between two averages of
// their parameters, or the program reduces gradients by itself.
#include <gtest/gtest.h>

#include "tests/support/lone_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::DdpJob;
using testing::LoneJob;

std::vector<std::int64_t> broken_steps(const char* law, const DdpJob& job) {
  std::vector<std::int64_t> steps;
  for (const Finding& finding : check(law, job.stream).findings) {
    steps.push_back(finding.step.value_or(-1));
  }
  return steps;
}

using Steps = std::vector<std::int64_t>;

constexpr const char* kLaws[] = {"replicas-equal", "reduced-once"};

TEST(LoneTrainingTest, RanksMayPartBetweenTwoAverages) {
  for (const char* law : kLaws) {
    LoneJob lone(2);
    for (int round = 0; round < 3; ++round) {
      lone.lone_step();
      lone.lone_step();
      lone.average(2);
    }
    EXPECT_EQ(check(law, lone.job.stream).verdict, Verdict::kHolds) << law;
    lone.lone_step();  // The run stops before the next average is due.
    EXPECT_EQ(broken_steps(law, lone.job), Steps{}) << law;
  }
}

TEST(LoneTrainingTest, AveragesByHandShowInTheParameters) {
  for (const char* law : kLaws) {
    LoneJob lone(3);
    lone.looks = true;
    for (int round = 0; round < 3; ++round) {
      lone.lone_step();
      lone.lone_step();
      lone.average_by_hand(3.0);
    }
    lone.lone_step();
    EXPECT_EQ(check(law, lone.job.stream).verdict, Verdict::kHolds) << law;
    EXPECT_EQ(check("outer-step", lone.job.stream).verdict, Verdict::kHolds);
    lone.lone_step();
    lone.lone_step();  // One more than between any two averages.
    EXPECT_EQ(broken_steps(law, lone.job), Steps{6}) << law;
  }
}

TEST(LoneTrainingTest, AManualAverageThatARankMissesDoesNotCount) {
  for (const char* law : kLaws) {
    LoneJob lone(3);
    lone.looks = true;
    for (int round = 0; round < 2; ++round) {
      lone.lone_step();
      const double missed = lone.job.weight(2);
      lone.average_by_hand(3.0);
      lone.job.weight(2) = missed;
    }
    lone.lone_step();
    EXPECT_EQ(broken_steps(law, lone.job), Steps{0}) << law;
  }
}

TEST(LoneTrainingTest, TheFactorOfAnAverageByHandIsNamed) {
  // The sum, and the mean that was divided by four instead of by three.
  for (const double divisor : {1.0, 4.0}) {
    LoneJob lone(3);
    lone.looks = true;
    lone.lone_step();
    lone.average_by_hand(divisor);
    lone.lone_step();
    const LawResult result = check("outer-step", lone.job.stream);
    ASSERT_EQ(result.findings.size(), 1U) << divisor;
    EXPECT_EQ(id_of(result.findings[0].cause), "outer-step-denominator");
    EXPECT_EQ(result.findings[0].step, 0);
    EXPECT_EQ(result.findings[0].weights.size(), 3U);
    EXPECT_DOUBLE_EQ(result.findings[0].weights[0], 1.0 / divisor);
  }
}

TEST(LoneTrainingTest, TakingOverOneRanksParametersIsNoMean) {
  LoneJob lone(3);
  lone.looks = true;
  lone.lone_step();
  for (double& weight : lone.job.weights) weight = lone.job.weight(1);
  lone.lone_step();
  EXPECT_EQ(check("outer-step", lone.job.stream).verdict, Verdict::kHolds);
}

TEST(LoneTrainingTest, RanksThatNeverAverageHaveParted) {
  for (const char* law : kLaws) {
    LoneJob lone(2);
    for (int step = 0; step < 3; ++step) lone.lone_step();
    EXPECT_EQ(broken_steps(law, lone.job), Steps{0}) << law;
  }
}

TEST(LoneTrainingTest, RanksThatStopAveragingHaveParted) {
  for (const char* law : kLaws) {
    LoneJob lone(2);
    for (int round = 0; round < 2; ++round) {
      lone.lone_step();
      lone.lone_step();
      lone.average(2);
    }
    for (int step = 0; step < 3; ++step) lone.lone_step();
    EXPECT_EQ(broken_steps(law, lone.job), Steps{4}) << law;
  }
}

TEST(LoneTrainingTest, AveragesOfPairsBringNoWorldTogether) {
  for (const char* law : kLaws) {
    LoneJob lone(4);
    for (int step = 0; step < 3; ++step) {
      lone.lone_step();
      lone.average(2);
    }
    EXPECT_EQ(broken_steps(law, lone.job), Steps{0}) << law;
  }
}

TEST(LoneTrainingTest, AveragesExcuseNoDriftOfRanksThatReduce) {
  LoneJob lone(2);
  for (int step = 0; step < 3; ++step) {
    if (step == 1) lone.job.weight(1) += 1.0;
    lone.job.train_step({1.0, 3.0});
    lone.average(2);
  }
  EXPECT_EQ(broken_steps("replicas-equal", lone.job), Steps{1});
}

TEST(LoneTrainingTest, OneRankAloneIsNotExcusedByAnAverage) {
  LoneJob lone(2);
  for (const std::int32_t rank : {0, 1}) {
    lone.job.forward(rank, rank == 0);
    lone.job.grad(rank, GradPoint::kInc, 1.0);
    if (rank == 0) lone.job.grad(rank, GradPoint::kPost, 1.0);
    lone.job.step(rank, 1.0);
  }
  lone.average(2);
  const LawResult result = check("reduced-once", lone.job.stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].ranks, (std::vector<Rank>{Rank{1}}));
}

TEST(OwnReductionTest, AMeanThatTheProgramTakesIsAReduction) {
  LoneJob lone(3);
  for (int step = 0; step < 2; ++step) {
    lone.step([&](std::int32_t) { return lone.mean(); });
  }
  EXPECT_EQ(check("reduced-once", lone.job.stream).verdict, Verdict::kHolds);
  const LawResult mean = check("gradient-mean", lone.job.stream);
  EXPECT_EQ(mean.verdict, Verdict::kHolds);
  EXPECT_EQ(mean.n_checked, 2);
  EXPECT_TRUE(mean.advice.empty());
}

TEST(OwnReductionTest, WhatDiffersInTheStepWasNotReduced) {
  LoneJob lone(3);
  lone.step([&](std::int32_t rank) { return lone.mean() + (rank == 2 ? 1.0 : 0.0); });
  const LawResult result = check("reduced-once", lone.job.stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].tensor, "weight");
}

// A program that calls a method of its module other than forward has no forward that says so.
TEST(OwnReductionTest, ALoopIsKnownWithoutItsForwards) {
  for (const double used_by_other : {2.0, 3.0}) {
    DdpJob job(2);
    job.wrap(/*synchronizes=*/false);
    for (std::int32_t rank = 0; rank < 2; ++rank) {
      job.grad(rank, GradPoint::kInc, rank == 0 ? 1.0 : 3.0);
      job.at(rank).wrapper = 0;
      job.stream.add(rank, BackwardEvent{.reduced = false});
      job.step(rank, rank == 0 ? 2.0 : used_by_other);
    }
    EXPECT_EQ(check("reduced-once", job.stream).findings.empty(), used_by_other == 2.0);
    EXPECT_EQ(check("gradient-mean", job.stream).n_checked, used_by_other == 2.0 ? 1 : 0);
  }
}

// Nothing shows what the others used, as where no call showed that they reduce by themselves.
TEST(OwnReductionTest, AWrapperOfSomeRanksThatReducesNothingProvesNothing) {
  for (const std::int32_t n_wrapped : {1, 2}) {
    DdpJob job(2);
    for (std::int32_t rank = 0; rank < 2; ++rank) {
      job.at(rank).wrapper = 0;
      if (rank < n_wrapped) job.stream.add(rank, WrapEvent{.n_ranks = 2, .synchronizes = false});
    }
    job.forward(0, false);
    job.grad(0, GradPoint::kInc, 1.0);
    job.step(0, 1.0);
    EXPECT_EQ(!check("reduced-once", job.stream).findings.empty(), n_wrapped == 2);
  }
}

// Ranks that compute the same have communicated nothing.
TEST(OwnReductionTest, EqualGradientsOnTheirOwnAreNoReduction) {
  DdpJob job(2);
  job.wrap();
  for (const std::int32_t rank : {0, 1}) {
    job.forward(rank, false);
    job.grad(rank, GradPoint::kInc, 1.0);
    job.step(rank, 1.0);
  }
  EXPECT_EQ(check("reduced-once", job.stream).verdict, Verdict::kBroken);
}

TEST(OwnReductionTest, ASumIsRightOnlyIfLossesWereDivided) {
  LoneJob lone(3);
  lone.step([&](std::int32_t) { return 3 * lone.mean(); });
  const LawResult result = check("gradient-mean", lone.job.stream);
  EXPECT_TRUE(result.findings.empty());
  ASSERT_EQ(result.advice.size(), 1U);
  EXPECT_EQ(result.advice[0].id, "A-summed-gradients");
}

TEST(OwnReductionTest, ALostRankIsNamed) {
  LoneJob lone(3);
  lone.step([](std::int32_t) { return (1.0 + 3.0) / 3.0; });
  const LawResult result = check("gradient-mean", lone.job.stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].ranks, (std::vector<Rank>{Rank{1}}));
  EXPECT_EQ(result.findings[0].event, "grad.used");
}

/// What is found where three ranks have averaged once and use `used` of the mean in a second step, cleared or not.
std::vector<Finding> found_after(const std::function<double(double)>& used, bool clears) {
  LoneJob lone(3);
  lone.step([&](std::int32_t) { return lone.mean(); });
  lone.clears = clears;
  lone.step([&](std::int32_t) { return used(lone.mean()); });
  return check("gradient-mean", lone.job.stream).findings;
}

TEST(OwnReductionTest, AMeanOnTopOfWhatTheStepBeforeUsedWasNotCleared) {
  const auto findings = found_after([](double mean) { return 2.0 * mean; }, false);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].cause, Cause::kZeroGradForgotten);
  EXPECT_EQ(findings[0].tensor, "weight");
  EXPECT_EQ(findings[0].event, "grad.used");
  EXPECT_EQ(findings[0].step, 1);
}

// As with `p.grad = None`, which leaves no event; a sum of anything else is the program's own.
TEST(OwnReductionTest, GradientsThatWereClearedInAnotherWayAreFine) {
  EXPECT_TRUE(found_after([](double mean) { return mean; }, false).empty());
  EXPECT_TRUE(found_after([](double mean) { return 2.5 * mean; }, false).empty());
  EXPECT_TRUE(found_after([](double mean) { return 2.0 * mean; }, true).empty());
}

TEST(OwnReductionTest, WhereTheStepBeforeUsedZerosNothingIsLeftOfIt) {
  LoneJob lone(3);
  lone.step([](std::int32_t) { return 0.0; });
  lone.clears = false;
  lone.step([&](std::int32_t) { return lone.mean(); });
  for (const Finding& finding : check("gradient-mean", lone.job.stream).findings) {
    EXPECT_NE(finding.cause, Cause::kZeroGradForgotten);
  }
}

TEST(OwnReductionTest, WhatAFirstStepFoundIsNotKnown) {
  LoneJob lone(3);
  lone.clears = false;
  lone.step([&](std::int32_t) { return 2.0 * lone.mean(); });
  EXPECT_TRUE(check("gradient-mean", lone.job.stream).findings.empty());
}

constexpr LossEvent kMeanLoss = {.reduction = LossReduction::kMean};

LawResult divided_twice(LoneJob lone) {
  lone.step([&](std::int32_t) { return lone.mean() / lone.job.n_ranks(); });
  return check("gradient-mean", lone.job.stream);
}

/// What is advised of three ranks that use their sum divided by `divisor`, in two steps.
std::string advised_of_a_division(double divisor, LossEvent loss) {
  LoneJob lone(3);
  lone.loss = loss;
  for (int step = 0; step < 2; ++step) {
    lone.step([&](std::int32_t) { return 3 * lone.mean() / divisor; });
  }
  const LawResult result = check("gradient-mean", lone.job.stream);
  EXPECT_TRUE(result.findings.empty()) << divisor;
  std::string text;
  for (const Advice& advice : result.advice) text += advice.id + ": " + advice.message;
  return text;
}

TEST(OwnReductionTest, ASumOfMeansThatIsDividedByAnotherNumberGetsAdvice) {
  EXPECT_EQ(advised_of_a_division(4.0, kMeanLoss),
            "A-other-divisor: 2 steps used the sum of 3 ranks' gradients divided by 4. For a mean "
            "over the ranks, divide by 3.");
  EXPECT_NE(advised_of_a_division(8.0, kMeanLoss).find("divided by 8"), std::string::npos);
}

// The mean; a loss that was scaled by four; a factor of clipping; a loss that is a sum of terms.
TEST(OwnReductionTest, WhatAveragingAScaleOrClippingExplainsGetsNone) {
  EXPECT_EQ(advised_of_a_division(3.0, kMeanLoss), "");
  EXPECT_EQ(advised_of_a_division(12.0, kMeanLoss), "");
  EXPECT_EQ(advised_of_a_division(2.5, kMeanLoss), "");
  EXPECT_EQ(advised_of_a_division(4.0, {.reduction = LossReduction::kSum}), "");
}

// As where a scaler's factor and a clipping's meet: of eight steps one divides by a whole number by chance.
TEST(OwnReductionTest, AFactorThatChangesIsNoDivisor) {
  for (const int n_whole : {2, 3}) {
    LoneJob lone(3);
    lone.loss = kMeanLoss;
    for (int step = 0; step < 4; ++step) {
      const double divisor = step < n_whole ? 4.0 : 2.7 + step;
      lone.step([&](std::int32_t) { return 3 * lone.mean() / divisor; });
    }
    EXPECT_EQ(check("gradient-mean", lone.job.stream).advice.size(), n_whole == 3 ? 1U : 0U);
  }
}

TEST(OwnReductionTest, LargeNumbersAreNearWholeOnesAnyway) {
  EXPECT_NE(advised_of_a_division(1000.0, kMeanLoss), "");
  EXPECT_EQ(advised_of_a_division(1001.0, kMeanLoss), "");
}

TEST(OwnReductionTest, AMeanOfMeansThatIsDividedOnceMoreIsWrong) {
  LoneJob lone(3);
  lone.loss = kMeanLoss;
  const LawResult result = divided_twice(std::move(lone));
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].cause, Cause::kDoubleAverage);
  EXPECT_EQ(result.findings[0].weights, std::vector<double>(3, 1.0 / 9.0));
}

TEST(OwnReductionTest, ADivisorIsReportedOnlyForMeanLosses) {
  LossEvent sum = kMeanLoss;
  sum.reduction = LossReduction::kSum;
  LossEvent only_called = kMeanLoss;
  only_called.n_terms = 4;
  LossEvent only_looked_at = kMeanLoss;
  only_looked_at.grad = false;
  for (const std::optional<LossEvent>& loss :
       {std::optional<LossEvent>(), {sum}, {only_called}, {only_looked_at}}) {
    LoneJob lone(3);
    lone.loss = loss;
    EXPECT_TRUE(divided_twice(std::move(lone)).findings.empty());
  }
}

// As many as there are ranks: dividing by both is right.
TEST(OwnReductionTest, MicroStepsLeaveADivisor) {
  LoneJob lone(3);
  lone.loss = kMeanLoss;
  lone.n_micro = 3;
  EXPECT_TRUE(divided_twice(std::move(lone)).findings.empty());
}

TEST(OwnReductionTest, AMeanLossOfAnEarlierBackwardProvesNothing) {
  LoneJob lone(2);
  lone.loss = kMeanLoss;
  lone.step([&](std::int32_t) { return lone.mean(); });
  lone.loss.reset();
  lone.step([&](std::int32_t) { return lone.mean() / 2; });
  EXPECT_TRUE(check("gradient-mean", lone.job.stream).findings.empty());
}

TEST(OwnReductionTest, OtherWeightsAndFactorsAreNotCheckable) {
  for (const double used : {0.75, 2.5, 17.0}) {
    LoneJob lone(3);
    lone.step([&](std::int32_t) { return used; });
    EXPECT_EQ(check("gradient-mean", lone.job.stream).verdict, Verdict::kNotCheckable) << used;
  }
}

TEST(ExtraReductionsTest, OnlyReductionsInARowAreAdvisedAgainst) {
  const auto advised = [](bool cleared) {
    DdpJob job(2);
    job.wrap();
    for (const std::int32_t rank : {0, 1}) {
      job.forward(rank);
      job.reduce(rank, 1.0, 1.0, 1.0);
      if (cleared) job.stream.add(rank, ZeroGradEvent{.layout = job.layout()});
      job.forward(rank);
      job.reduce(rank, 1.0, 1.0, 1.0);
      job.step(rank, 1.0);
    }
    return !check("reduced-once", job.stream).advice.empty();
  };
  EXPECT_TRUE(advised(false));
  EXPECT_FALSE(advised(true));
}

TEST(ExtraReductionsTest, AStepOfAnotherOptimizerParts) {
  for (const bool other : {false, true}) {
    DdpJob job(2);
    job.wrap();
    job.wrapper = 1;
    job.wrap();
    for (const std::int32_t rank : {0, 1}) {
      job.wrapper = 0;
      job.forward(rank);
      job.reduce(rank, 1.0, 1.0, 1.0);
      job.wrapper = 1;
      if (other) job.step(rank, 1.0);
      job.wrapper = 0;
      job.forward(rank);
      job.reduce(rank, 1.0, 1.0, 1.0);
      job.step(rank, 1.0);
    }
    EXPECT_EQ(check("reduced-once", job.stream).advice.empty(), other);
  }
}

}  // namespace
}  // namespace lockstep
