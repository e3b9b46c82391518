// gradient-mean where a communication hook says that it loses something.
#include <gtest/gtest.h>

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::DdpJob;
using testing::policy_of;

/// One reduction of a wrapper with a hook. `wire`: what it sends, kF64 for what it was given.
DdpJob hooked(HookEffect effect, DType wire, const std::vector<double>& locals, double reduced) {
  DdpJob job(static_cast<std::int32_t>(locals.size()));
  job.wrap();
  for (std::int32_t rank = 0; rank < job.n_ranks(); ++rank) {
    const double local = locals[static_cast<std::size_t>(rank)];
    job.at(rank);
    job.stream.add(rank, CommHookEvent{.effect = effect});
    job.forward(rank);
    CollectiveEvent call;
    call.signature.op = wire == DType::kU8 ? CollectiveOp::kAllGather : CollectiveOp::kAllReduce;
    call.signature.dtype = wire;
    job.stream.add(rank, call);
    job.reduce(rank, local, local, reduced);
    job.step(rank, reduced);
  }
  return job;
}

LawResult hooked_mean(const DdpJob& job, bool hooks_may_lose = true) {
  LawPolicy policy = policy_of(job.n_ranks());
  policy.hooks_may_lose = hooks_may_lose;
  return check("gradient-mean", job.stream, policy);
}

const std::vector<double> kLocals = {1.0, 3.0};

// bfloat16 has 8 significant bits: u = 2^-8. Two ranks: 3 roundings, of at most 3 u / (1 - 3 u) of
// the mean of the absolute values, which is 2.
constexpr double kBound = 2.0 * (3.0 / 256.0) / (1.0 - 3.0 / 256.0);

TEST(HookedMeanTest, SixteenBitsAreJudgedWithinTheirBound) {
  for (const double off : {0.0, 0.99 * kBound, -0.99 * kBound}) {
    const DdpJob job = hooked(HookEffect::kRounded, DType::kBF16, kLocals, 2.0 + off);
    EXPECT_EQ(hooked_mean(job).verdict, Verdict::kHolds) << off;
  }
  for (const double off : {1.01 * kBound, -1.01 * kBound}) {
    const DdpJob job = hooked(HookEffect::kRounded, DType::kBF16, kLocals, 2.0 + off);
    EXPECT_EQ(hooked_mean(job).verdict, Verdict::kBroken) << off;
  }
}

TEST(HookedMeanTest, TheRankThatARoundingHookLosesIsNamed) {
  const double without_rank_1 = 0.25 * (1.0 + 4.0 + 16.0) * (1.0 + 1.0 / 256.0);
  const LawResult result = hooked_mean(
      hooked(HookEffect::kRounded, DType::kBF16, {1.0, 8.0, 4.0, 16.0}, without_rank_1));
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].ranks, (std::vector<Rank>{Rank{1}}));
  EXPECT_NE(id_of(result.findings[0].cause), "bf16-hop-rounding");
}

TEST(HookedMeanTest, WhatHasNoBoundIsNotCheckable) {
  for (const DType wire : {DType::kU8, DType::kF64}) {
    const LawResult result = hooked_mean(hooked(HookEffect::kRounded, wire, kLocals, 2.25));
    EXPECT_EQ(result.verdict, Verdict::kNotCheckable);
    EXPECT_NE(result.missing.find("a hook that compresses"), std::string::npos);
  }
  const LawResult result = hooked_mean(hooked(HookEffect::kOther, DType::kF64, kLocals, 1.0));
  EXPECT_EQ(result.verdict, Verdict::kNotCheckable);
  EXPECT_NE(result.missing.find("something other than the mean"), std::string::npos);
}

TEST(HookedMeanTest, AHookThatSaysItAveragesIsHeldToIt) {
  EXPECT_EQ(hooked_mean(hooked(HookEffect::kMean, DType::kF64, kLocals, 2.0)).verdict,
            Verdict::kHolds);
  EXPECT_EQ(hooked_mean(hooked(HookEffect::kMean, DType::kF64, kLocals, 2.25)).verdict,
            Verdict::kBroken);
}

TEST(HookedMeanTest, APolicyMayHoldEveryHookToTheMean) {
  for (const HookEffect effect : {HookEffect::kRounded, HookEffect::kOther}) {
    const DdpJob job = hooked(effect, DType::kBF16, kLocals, 2.0 + 1.0 / 128.0);
    EXPECT_EQ(hooked_mean(job, false).verdict, Verdict::kBroken);
  }
}

// Of 1 and 3 the mean is 2, and 4 their sum.
TEST(HookedMeanTest, AHookThatLeavesTheSumIsAdvisedAgainstAndNotAccused) {
  const LawResult result = hooked_mean(hooked(HookEffect::kOther, DType::kF64, kLocals, 4.0));
  EXPECT_TRUE(result.findings.empty());
  ASSERT_EQ(result.advice.size(), 1U);
  EXPECT_EQ(result.advice[0].id, "A-summed-gradients");
  for (const double other : {2.0, 1.0, 3.5, 8.0}) {
    EXPECT_TRUE(hooked_mean(hooked(HookEffect::kOther, DType::kF64, kLocals, other)).advice.empty())
        << other;
  }
}

}  // namespace
}  // namespace lockstep
