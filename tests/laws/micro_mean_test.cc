// gradient-mean where the micro-steps of a window have different denominators.
#include <gtest/gtest.h>

#include "tests/support/window_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::DdpJob;
using testing::mean_of_contributions;
using testing::Micro;
using testing::policy_of;
using testing::reduce_to;
using testing::reduced_to;
using testing::Windows;

LawResult micro_mean(const DdpJob& job, bool exact = true) {
  LawPolicy policy = policy_of(job.n_ranks());
  policy.exact = exact;
  return check("gradient-mean", job.stream, policy);
}

/// 1 and 3 tokens on rank 0, 2 and 2 on rank 1, each micro-step divided by its own.
Windows uneven() { return {{{4.0, 1, 1.0}, {24.0, 3, 3.0}}, {{4.0, 2, 2.0}, {16.0, 2, 2.0}}}; }

TEST(MicroMeanTest, AMeanOfMicroStepsMeansIsNamedWithAWeightForEachOfThem) {
  // PyTorch's own loop: (4/1 + 24/3 + 4/2 + 16/2) / 2 ranks = 11, where 48 / 8 tokens = 6 was meant.
  const Windows windows = uneven();
  const LawResult result =
      micro_mean(reduced_to(mean_of_contributions(windows), windows, "token-mean"));
  ASSERT_EQ(result.findings.size(), 1U);
  const Finding& finding = result.findings[0];
  EXPECT_EQ(id_of(finding.cause), "token-weighted-mean");
  EXPECT_EQ(finding.weights, (std::vector<double>{0.5, 0.5, 0.5, 0.5}));
  EXPECT_EQ(finding.declared, (std::vector<double>{0.125, 0.375, 0.25, 0.25}));
  EXPECT_NE(finding.message.find("rank 0: 0.125, 0.375; rank 1: 0.25, 0.25"), std::string::npos)
      << finding.message;
}

TEST(MicroMeanTest, DividingByTheNumberOfMicroStepsIsNoRepair) {
  const Windows windows = uneven();
  const LawResult result =
      micro_mean(reduced_to(mean_of_contributions(windows) / 2, windows, "token-mean"));
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].weights, (std::vector<double>{0.25, 0.25, 0.25, 0.25}));
}

TEST(MicroMeanTest, OneDenominatorForTheWholeWindowIsRight) {
  // Every summed loss divided by 8 tokens / 2 ranks.
  Windows windows = uneven();
  for (std::vector<Micro>& window : windows) {
    for (Micro& micro : window) micro.denominator = 4.0;
  }
  const LawResult result = micro_mean(reduced_to(6.0, windows, "token-mean"));
  EXPECT_EQ(mean_of_contributions(windows), 6.0);
  EXPECT_EQ(result.verdict, Verdict::kHolds);
  EXPECT_EQ(result.n_checked, 1);
}

TEST(MicroMeanTest, WhatAWeighingHookPublishesIsRight) {
  EXPECT_EQ(micro_mean(reduced_to(6.0, uneven(), "token-mean")).verdict, Verdict::kHolds);
  // Twice as much, where each loss is meant to count in full.
  EXPECT_EQ(micro_mean(reduced_to(12.0, uneven(), "token-mean")).verdict, Verdict::kHolds);
}

TEST(MicroMeanTest, ALostMicroStepIsNamedWithItsRank) {
  const LawResult result = micro_mean(reduced_to((48.0 - 16.0) / 8, uneven(), "token-mean"));
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_NE(result.findings[0].message.find(
                "one rank's contribution from micro-step 1 is missing (rank 1)"),
            std::string::npos)
      << result.findings[0].message;
  EXPECT_EQ(result.findings[0].ranks, (std::vector<Rank>{Rank{1}}));
}

TEST(MicroMeanTest, ASumOfAllMeansIsNamed) {
  const LawResult result = micro_mean(reduced_to(22.0, uneven(), "token-mean"));
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(id_of(result.findings[0].cause), "sum-vs-mean");
}

/// 1 and 3 tokens on rank 0, all 4 of rank 1 at once.
Windows of_two_lengths() { return {{{4.0, 1, 1.0}, {24.0, 3, 3.0}}, {{16.0, 4, 4.0}}}; }

TEST(MicroMeanTest, RanksMayHaveDifferentNumbersOfMicroSteps) {
  // 44 / 8 tokens.
  EXPECT_EQ(micro_mean(reduced_to(5.5, of_two_lengths(), "token-mean")).verdict, Verdict::kHolds);
}

TEST(MicroMeanTest, AMeanOfMeansIsNamedWhereRanksHaveDifferentNumbersOfMicroSteps) {
  // PyTorch's own loop: (4/1 + 24/3 + 16/4) / 2 ranks.
  const Windows windows = of_two_lengths();
  const LawResult result =
      micro_mean(reduced_to(mean_of_contributions(windows), windows, "token-mean"));
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(id_of(result.findings[0].cause), "token-weighted-mean");
  EXPECT_EQ(result.findings[0].weights, (std::vector<double>{0.5, 0.5, 0.5}));
  EXPECT_EQ(result.findings[0].declared, (std::vector<double>{0.125, 0.375, 0.5}));
}

TEST(MicroMeanTest, DividingByTheRanksOwnNumberOfMicroStepsIsAMeanOfTheRanksMeans) {
  // ((4/1 + 24/3) / 2 + 16/4) / 2 ranks.
  const LawResult result = micro_mean(reduced_to(5.0, of_two_lengths(), "token-mean"));
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(id_of(result.findings[0].cause), "token-weighted-mean");
  EXPECT_EQ(result.findings[0].weights, (std::vector<double>{0.25, 0.25, 0.5}));
  EXPECT_NE(result.findings[0].message.find("mean of the ranks' means"), std::string::npos);
}

TEST(MicroMeanTest, ALostMicroStepIsNamedWhereRanksHaveDifferentNumbersOfThem) {
  const LawResult result =
      micro_mean(reduced_to((44.0 - 24.0) / 8, of_two_lengths(), "token-mean"));
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].ranks, (std::vector<Rank>{Rank{0}}));
}

TEST(MicroMeanTest, AMeanOfTheRanksMeansMayBeWhatIsMeant) {
  EXPECT_EQ(micro_mean(reduced_to(11.0, uneven(), "rank-mean")).verdict, Verdict::kHolds);
  EXPECT_EQ(micro_mean(reduced_to(11.0, uneven(), "")).verdict, Verdict::kHolds);
}

/// 1 and 3 tokens on both ranks: no rank counts more than the other, and still the micro-steps do.
Windows uneven_alike() {
  return {{{4.0, 1, 1.0}, {24.0, 3, 3.0}}, {{6.0, 1, 1.0}, {18.0, 3, 3.0}}};
}

TEST(MicroMeanTest, AMeanOfMicroStepsMeansIsNamedWhereAllRanksDivideAlike) {
  // (4/1 + 24/3 + 6/1 + 18/3) / 2 ranks = 12, where 52 / 8 tokens = 6.5 was meant.
  const Windows windows = uneven_alike();
  const LawResult result =
      micro_mean(reduced_to(mean_of_contributions(windows), windows, "token-mean"));
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(id_of(result.findings[0].cause), "token-weighted-mean");
  EXPECT_EQ(result.findings[0].declared, (std::vector<double>{0.125, 0.375, 0.125, 0.375}));
  EXPECT_EQ(micro_mean(reduced_to(6.5, windows, "token-mean")).verdict, Verdict::kHolds);
  EXPECT_EQ(micro_mean(reduced_to(13.0, windows, "token-mean")).verdict, Verdict::kHolds);
  EXPECT_EQ(micro_mean(reduced_to(12.0, windows, "rank-mean")).verdict, Verdict::kHolds);
}

// A smaller last batch on all ranks.
TEST(MicroMeanTest, SamplesNeedNotCountTheSameInAllMicroStepsWhereAllRanksDivideAlike) {
  const Windows windows = uneven_alike();
  EXPECT_EQ(micro_mean(reduced_to(12.0, windows, "sample-mean")).verdict, Verdict::kHolds);
  EXPECT_EQ(micro_mean(reduced_to(11.0, windows, "sample-mean")).verdict, Verdict::kBroken);
}

// Whatever the micro-steps were to count, the ranks count the same.
TEST(MicroMeanTest, RanksThatDivideAlikeAreAveragedAlsoWhereTheirMicroStepsAreUnknown) {
  for (const double reduced : {8.0, 7.0}) {
    DdpJob job(2);
    job.wrap();
    for (const std::int32_t rank : {0, 1}) {
      job.forward(rank);
      job.batch(rank, 1, 1, 1.0, "token-mean");
      job.batch(rank, 3, 3, 3.0, "token-mean");
      job.reduce(rank, 7.0 + 2 * rank, 7.0 + 2 * rank, reduced);
    }
    EXPECT_EQ(micro_mean(job).verdict, reduced == 8.0 ? Verdict::kHolds : Verdict::kBroken);
  }
}

TEST(MicroMeanTest, ATensorIsReportedOnceHoweverManyWindowsAreWrong) {
  DdpJob job(2);
  job.wrap();
  for (int window = 0; window < 2; ++window) {
    reduce_to(mean_of_contributions(uneven()), uneven(), "token-mean", job);
  }
  const LawResult result = micro_mean(job);
  EXPECT_EQ(result.n_checked, 2);
  EXPECT_EQ(result.findings.size(), 1U);
}

// What a loss was divided by is not known where it is recorded as 0.
TEST(MicroMeanTest, AMicroStepWithoutAKnownDenominatorIsNotHeldAgainstTheReduction) {
  DdpJob job(2);
  job.wrap();
  for (const std::int32_t rank : {0, 1}) {
    job.forward(rank, false);
    job.batch(rank, 1 + rank, 1 + rank, 0.0, "token-mean");
    job.grad(rank, GradPoint::kInc, 4.0);
    job.forward(rank);
    job.batch(rank, 3, 3, 3.0, "token-mean");
    job.reduce(rank, 8.0, 12.0, 12.0);
    job.step(rank, 12.0);
  }
  EXPECT_NE(micro_mean(job).verdict, Verdict::kBroken);
}

// Something else was in the gradient: not one weight for each micro-step.
TEST(MicroMeanTest, WhatDoesNotAddUpIsNotCheckable) {
  DdpJob job(2);
  job.wrap();
  for (const std::int32_t rank : {0, 1}) {
    job.forward(rank, false);
    job.batch(rank, 1, 1, 1.0, "token-mean");
    job.grad(rank, GradPoint::kInc, 4.0);
    job.forward(rank);
    job.batch(rank, 3 + rank, 3 + rank, 3.0 + rank, "token-mean");
    job.reduce(rank, 8.0, 100.0, 100.0);
  }
  EXPECT_EQ(micro_mean(job).verdict, Verdict::kNotCheckable);
}

}  // namespace
}  // namespace lockstep
