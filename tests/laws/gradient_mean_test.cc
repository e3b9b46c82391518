#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::DdpJob;
using testing::policy_of;

struct Share {
  double local = 0.0;
  std::int64_t n_samples = 1;
  std::int64_t n_tokens = 0;
  double denominator = 1.0;
};

/// One step in which each rank contributes its share and `reduced` comes out.
DdpJob reduced_to(double reduced, const std::vector<Share>& shares, std::string_view declared) {
  DdpJob job(static_cast<std::int32_t>(shares.size()));
  job.wrap();
  for (std::int32_t rank = 0; rank < job.n_ranks(); ++rank) {
    const Share& share = shares[static_cast<std::size_t>(rank)];
    job.forward(rank);
    job.batch(rank, share.n_samples, share.n_tokens, share.denominator, declared);
    job.reduce(rank, share.local, share.local, reduced);
    job.step(rank, reduced);
  }
  return job;
}

LawResult checked(const DdpJob& job, bool exact = true) {
  LawPolicy policy = policy_of(job.n_ranks());
  policy.exact = exact;
  return check("gradient-mean", job.stream, policy);
}

TEST(GradientMeanTest, AMeanOfMeansIsNotAMeanOverTokens) {
  // 1 token with gradient 2 on rank 0; 3 tokens with gradient 8 each on rank 1.
  const LawResult result =
      checked(reduced_to(5.0, {{2.0, 1, 1, 1.0}, {8.0, 1, 3, 3.0}}, "token-mean"));

  ASSERT_EQ(result.findings.size(), 1U);
  const Finding& finding = result.findings[0];
  EXPECT_EQ(finding.step, 0);
  EXPECT_EQ(finding.tensor, "weight");
  EXPECT_EQ(finding.weights, (std::vector<double>{0.5, 0.5}));
  EXPECT_EQ(finding.declared, (std::vector<double>{0.25, 0.75}));
  EXPECT_EQ(id_of(finding.cause), "token-weighted-mean");
}

TEST(GradientMeanTest, DividingByTheGlobalCountMakesTheMeanRight) {
  // The same job, each summed loss divided by 4 tokens / 2 ranks: 2/2 and 24/2, mean 6.5.
  const LawResult result =
      checked(reduced_to(6.5, {{1.0, 1, 1, 2.0}, {12.0, 1, 3, 2.0}}, "token-mean"));
  EXPECT_EQ(result.verdict, Verdict::kHolds);
  EXPECT_EQ(result.n_checked, 1);
}

TEST(GradientMeanTest, EqualTokensMakeAMeanOfMeansRight) {
  EXPECT_EQ(checked(reduced_to(5.0, {{2.0, 1, 2, 2.0}, {8.0, 1, 2, 2.0}}, "token-mean")).verdict,
            Verdict::kHolds);
}

TEST(GradientMeanTest, NamesASum) {
  const LawResult result =
      checked(reduced_to(10.0, {{2.0, 4, 0, 4.0}, {8.0, 4, 0, 4.0}}, "sample-mean"));
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(id_of(result.findings[0].cause), "sum-vs-mean");
  EXPECT_EQ(result.findings[0].weights, (std::vector<double>{1.0, 1.0}));
}

TEST(GradientMeanTest, NamesADivisionTooMany) {
  const LawResult result =
      checked(reduced_to(2.5, {{2.0, 4, 0, 4.0}, {8.0, 4, 0, 4.0}}, "sample-mean"));
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(id_of(result.findings[0].cause), "double-average");
}

TEST(GradientMeanTest, NamesALossDividedByTheWorldBeforeTheMean) {
  // Each rank divided by 8 = 2 ranks * 4 samples, and the reducer averaged on top.
  const LawResult result =
      checked(reduced_to(2.5, {{1.0, 4, 0, 8.0}, {4.0, 4, 0, 8.0}}, "sample-mean"));
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(id_of(result.findings[0].cause), "double-average");
}

TEST(GradientMeanTest, NamesTheRankWhoseContributionIsLost) {
  const LawResult result = checked(reduced_to(0.25 * (1 + 2 + 16), {{1}, {2}, {4}, {16}}, ""));
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].ranks, (std::vector<Rank>{Rank{2}}));
  EXPECT_EQ(result.findings[0].weights, (std::vector<double>{0.25, 0.25, 0.0, 0.25}));
}

TEST(GradientMeanTest, NamesTheRankThatWasCountedTwice) {
  const LawResult result = checked(reduced_to(0.25 * (1 + 2 + 4 + 32), {{1}, {2}, {4}, {16}}, ""));
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].ranks, (std::vector<Rank>{Rank{3}}));
  EXPECT_NE(result.findings[0].message.find("twice"), std::string::npos);
}

TEST(GradientMeanTest, NamesAnyOtherFactor) {
  const LawResult result = checked(reduced_to(1.5 * 4, {{1}, {7}}, ""), false);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_NE(result.findings[0].message.find("x 1.5"), std::string::npos);
}

TEST(GradientMeanTest, AMeanThatOverflowedIsNotAMean) {
  const LawResult result =
      checked(reduced_to(std::numeric_limits<double>::infinity(), {{2e4}, {2e4}}, ""), false);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(id_of(result.findings[0].cause), "fp16-sum-overflow");
}

TEST(GradientMeanTest, GradientsThatWereNotFiniteBeforeProveNothing) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(checked(reduced_to(nan, {{nan}, {1.0}}, "")).verdict, Verdict::kHolds);
}

TEST(GradientMeanTest, RoundingIsToleratedUnlessTheRunWasExact) {
  const DdpJob job = reduced_to((0.1 + 0.7) / 2 + 0x1p-54, {{0.1}, {0.7}}, "");
  EXPECT_EQ(checked(job, false).verdict, Verdict::kHolds);
  const DdpJob off = reduced_to(4.0 + 0x1p-50, {{1.0}, {7.0}}, "");
  EXPECT_EQ(checked(off, true).verdict, Verdict::kBroken);
  const DdpJob far = reduced_to(4.0 + 0x1p-40, {{1.0}, {7.0}}, "");
  EXPECT_EQ(checked(far, false).verdict, Verdict::kBroken);
}

TEST(GradientMeanTest, ARankThatDidNotUseAParameterCountsAsZero) {
  for (const bool used_somewhere : {true, false}) {
    DdpJob job(2);
    job.wrap();
    for (std::int32_t rank = 0; rank < 2; ++rank) {
      job.forward(rank);
      job.grad(rank, GradPoint::kPre, 4.0, rank == 1 || !used_somewhere);
      job.grad(rank, GradPoint::kPost, used_somewhere ? 2.0 : 77.0);
    }
    const LawResult result = checked(job);
    EXPECT_EQ(result.verdict, used_somewhere ? Verdict::kHolds : Verdict::kNotCheckable);
  }
}

TEST(GradientMeanTest, AccumulationIsAMeanWhetherOrNotTheLossIsDividedByItsSteps) {
  for (const double denominator : {4.0, 8.0}) {
    DdpJob job(2);
    job.wrap();
    for (std::int32_t rank = 0; rank < 2; ++rank) {
      job.forward(rank, false);
      job.batch(rank, 4, 0, denominator, "sample-mean");
      job.forward(rank);
      job.batch(rank, 4, 0, denominator, "sample-mean");
      job.reduce(rank, 1.0, 3.0 + 2 * rank, 4.0);
    }
    EXPECT_EQ(checked(job).verdict, Verdict::kHolds) << denominator;
  }
}

TEST(GradientMeanTest, MicroBatchesOfDifferentSizesNeedMoreThanSums) {
  DdpJob job(2);
  job.wrap();
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    job.forward(rank, false);
    job.batch(rank, 4, 0, 4.0, "sample-mean");
    job.forward(rank);
    job.batch(rank, 1 + rank, 0, 1.0 + rank, "sample-mean");
    job.reduce(rank, 1.0, 3.0, 3.0);
  }
  EXPECT_EQ(checked(job).verdict, Verdict::kNotCheckable);
}

TEST(GradientMeanTest, AWriteAfterWrappingLeavesTheMeanAMean) {
  EXPECT_EQ(
      checked(reduced_to(200.0, {{2.0, 1, 0, 1.0}, {398.0, 1, 0, 1.0}}, "sample-mean")).verdict,
      Verdict::kHolds);
}

TEST(GradientMeanTest, WithoutSketchesItSaysWhatToAdd) {
  const LawResult result = check("gradient-mean", DdpJob(2).stream);
  EXPECT_EQ(result.verdict, Verdict::kNotCheckable);
  EXPECT_NE(result.missing.find("sketches"), std::string::npos);
}

std::vector<std::string> advice_ids(const DdpJob& job) {
  std::vector<std::string> ids;
  for (const Advice& advice : check("gradient-mean", job.stream).advice) ids.push_back(advice.id);
  return ids;
}

/// Steps of two ranks; from `first_bad` on rank 1's gradient is not finite. `skipped`: a loss scaler
/// leaves those steps out.
DdpJob overflowing(int first_bad, bool skipped) {
  DdpJob job(2);
  job.wrap();
  for (int step = 0; step < 3; ++step) {
    const bool bad = step >= first_bad;
    for (const std::int32_t rank : {0, 1}) {
      const double local = rank == 1 && bad ? NAN : 1.0 + rank;
      job.forward(rank);
      job.reduce(rank, local, local, bad ? NAN : 1.5);
    }
    for (const std::int32_t rank : {0, 1}) job.step(rank, bad ? NAN : 1.5, 1.0, bad && skipped);
  }
  return job;
}

TEST(GradientAdviceTest, TheFirstValueThatIsNoNumberIsNamedWithItsRank) {
  const LawResult result = check("gradient-mean", overflowing(1, false).stream);
  EXPECT_NE(result.verdict, Verdict::kBroken);
  ASSERT_EQ(result.advice.size(), 1U);
  EXPECT_EQ(result.advice[0].id, "A-non-finite");
  EXPECT_EQ(result.advice[0].message,
            "step 1 used a non-finite gradient of `weight`: it came from rank 1. Skip such a step "
            "on all ranks.");
}

TEST(GradientAdviceTest, WhatIsSkippedOrFiniteIsFine) {
  EXPECT_TRUE(advice_ids(overflowing(1, true)).empty());
  EXPECT_TRUE(advice_ids(overflowing(3, false)).empty());
}

TEST(GradientAdviceTest, RanksThatAlwaysPutInTheSameAreAdvised) {
  for (const double second : {1.0, 3.0}) {
    DdpJob job(2);
    job.wrap();
    for (int step = 0; step < 4; ++step) job.train_step({1.0, step == 2 ? second : 1.0});
    EXPECT_EQ(advice_ids(job).size(), second == 1.0 ? 1U : 0U);
  }
}

TEST(GradientAdviceTest, ThreeReductionsAreTooFew) {
  DdpJob job(2);
  job.wrap();
  for (int step = 0; step < 3; ++step) job.train_step({1.0, 1.0});
  EXPECT_TRUE(advice_ids(job).empty());
}

/// Two wrappers, of which the second one's ranks put in the same.
TEST(GradientAdviceTest, EachWrapperIsLookedAtByItself) {
  DdpJob job(2);
  for (const std::int32_t wrapper : {0, 1}) {
    job.wrapper = wrapper;
    for (std::int32_t rank = 0; rank < 2; ++rank) job.stream.at(rank) = {};
    job.wrap();
    for (int step = 0; step < 4; ++step) job.train_step({1.0, wrapper == 0 ? 3.0 : 1.0});
  }
  const LawResult result = check("gradient-mean", job.stream);
  ASSERT_EQ(result.advice.size(), 1U);
  EXPECT_EQ(result.advice[0].id, "A-same-gradients");
  EXPECT_TRUE(result.advice[0].message.starts_with(
      "in all 4 reductions of the wrapper of `weight` every rank contributed the same gradient"))
      << result.advice[0].message;
}

/// A loop of two ranks that reduces by itself: contributions of 1 and 3, and a second step that uses `used` where these
/// ranks have cleared what the first one has used, which was 2.
LawResult second_step(double used, std::vector<std::int32_t> cleared) {
  DdpJob job(2);
  job.wrap(/*synchronizes=*/false);
  for (std::int32_t step = 0; step < 2; ++step) {
    for (std::int32_t rank = 0; rank < 2; ++rank) {
      job.at(rank);
      const bool clears = step == 0 || std::ranges::count(cleared, rank) > 0;
      if (clears) job.stream.add(rank, ZeroGradEvent{.layout = job.layout()});
      job.forward(rank, /*synchronizing=*/false);
      job.grad(rank, GradPoint::kInc, rank == 0 ? 1.0 : 3.0);
      job.step(rank, step == 0 ? 2.0 : used);
    }
  }
  return check("gradient-mean", job.stream);
}

TEST(GradientMeanTest, NamesTheRanksOfALoopThatHaveNotCleared) {
  const LawResult one = second_step((1.0 + 2.0 + 3.0) / 2, {0});
  ASSERT_EQ(one.findings.size(), 1U);
  EXPECT_EQ(one.findings[0].cause, Cause::kZeroGradForgotten);
  EXPECT_EQ(one.findings[0].ranks, std::vector<Rank>{Rank{1}});
  EXPECT_EQ(one.findings[0].step, 1);
  const LawResult both = second_step((2.0 + 1.0 + 2.0 + 3.0) / 2, {});
  ASSERT_EQ(both.findings.size(), 1U);
  EXPECT_EQ(both.findings[0].ranks, std::vector<Rank>{}) << "all alike";
  EXPECT_TRUE(second_step(2.0, {0}).findings.empty()) << "cleared by hand";
  EXPECT_TRUE(second_step(2.0, {0, 1}).findings.empty());
}

}  // namespace
}  // namespace lockstep
