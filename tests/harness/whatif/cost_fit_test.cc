#include "lockstep/harness/whatif/cost_fit.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

/// A ring's all-reduce by its formula (docs/real_ranks.md): 2 (n-1) (alpha + S / (n B)).
MeasuredCalls ring(std::int32_t n, std::int64_t bytes, double alpha_ns, double gb_per_s) {
  const double part = static_cast<double>(bytes) / n / gb_per_s;
  return {.calls = {{.op = CollectiveOp::kAllReduce, .n_bytes = bytes, .n_ranks = n}},
          .took_ns = 2.0 * (n - 1) * (alpha_ns + part)};
}

TEST(CostFitTest, LatencyAndBandwidthOfARingAreFoundAgain) {
  std::vector<MeasuredCalls> calls;
  for (const std::int64_t bytes : {1024, 65'536, 1'048'576, 16'777'216}) {
    for (const std::int32_t n : {2, 4, 8}) calls.push_back(ring(n, bytes, 5000.0, 12.5));
  }
  const auto fit = fit_link(calls, ReductionOrder::kGlooRing);
  ASSERT_TRUE(fit.ok()) << fit.error().text();
  EXPECT_EQ(fit.value().latency_ns, 5000);
  EXPECT_NEAR(fit.value().gb_per_s, 12.5, 12.5e-6) << "the model's own rounding to nanoseconds";
  EXPECT_EQ(fit.value().n_measured, 12U);
  EXPECT_LT(fit.value().worst, 1e-6);
}

// An all-gather of n parts: (n-1) alpha + (n-1)/n S / B.
TEST(CostFitTest, OtherCollectivesHaveFormulasOfTheirOwn) {
  std::vector<MeasuredCalls> calls;
  for (const double bytes : {4096.0, 1e6, 1e8}) {
    calls.push_back({.calls = {{.op = CollectiveOp::kAllGather,
                                .n_bytes = static_cast<std::int64_t>(bytes),
                                .n_ranks = 4}},
                     .took_ns = 3.0 * 2000.0 + 0.75 * bytes / 50.0});
  }
  const auto fit = fit_link(calls, ReductionOrder::kGlooRing);
  ASSERT_TRUE(fit.ok()) << fit.error().text();
  EXPECT_EQ(fit.value().latency_ns, 2000);
  EXPECT_NEAR(fit.value().gb_per_s, 50.0, 50e-6);
}

TEST(CostFitTest, TheOrderOfSummationDecidesHowManyMessagesThereAre) {
  const std::vector<MeasuredCalls> calls = {ring(8, 1024, 5000.0, 12.5),
                                            ring(8, 16'777'216, 5000.0, 12.5)};
  const auto fit = fit_link(calls, ReductionOrder::kPairwise);
  ASSERT_TRUE(fit.ok());
  // 2 (n-1) = 14 messages of a ring, 2 log2 n = 6 of halving and doubling.
  EXPECT_NEAR(static_cast<double>(fit.value().latency_ns), 5000.0 * 14.0 / 6.0, 1.0);
}

TEST(CostFitTest, CallsOfOneSizeTellNoLatency) {
  const std::vector<MeasuredCalls> calls = {ring(4, 1 << 20, 5000.0, 10.0),
                                            ring(4, 1 << 20, 5000.0, 10.0)};
  const auto fit = fit_link(calls, ReductionOrder::kGlooRing);
  ASSERT_TRUE(fit.ok());
  EXPECT_EQ(fit.value().latency_ns, 0);
  // All of the time is the bytes': 6 parts of 2^18 bytes.
  EXPECT_NEAR(fit.value().gb_per_s, 6.0 * 262'144.0 / calls[0].took_ns, 1e-5);
}

TEST(CostFitTest, LatencyAndBandwidthAreNeverFittedBelowZero) {
  // Less than proportional to nothing: a longer message takes less time.
  const std::vector<MeasuredCalls> falling = {
      {.calls = {{.n_bytes = 1000, .n_ranks = 2}}, .took_ns = 4000.0},
      {.calls = {{.n_bytes = 2000, .n_ranks = 2}}, .took_ns = 2000.0}};
  const auto latency = fit_link(falling, ReductionOrder::kGlooRing);
  ASSERT_TRUE(latency.ok());
  EXPECT_EQ(latency.value().gb_per_s, 0.0);
  EXPECT_GT(latency.value().latency_ns, 0);
  // More than proportional.
  const std::vector<MeasuredCalls> rising = {
      {.calls = {{.n_bytes = 1000, .n_ranks = 2}}, .took_ns = 1000.0},
      {.calls = {{.n_bytes = 2000, .n_ranks = 2}}, .took_ns = 9000.0}};
  const auto bandwidth = fit_link(rising, ReductionOrder::kGlooRing);
  ASSERT_TRUE(bandwidth.ok());
  EXPECT_EQ(bandwidth.value().latency_ns, 0);
  EXPECT_GT(bandwidth.value().gb_per_s, 0.0);
  EXPECT_GT(bandwidth.value().worst, 0.2) << "and the fit says that it is bad";
}

TEST(CostFitTest, WhatTakesNoTimeOrHasOneRankTellsNothing) {
  const std::vector<MeasuredCalls> calls = {
      {.calls = {{.n_bytes = 1000, .n_ranks = 1}}, .took_ns = 100.0},
      {.calls = {{.n_bytes = 1000, .n_ranks = 2}}, .took_ns = 0.0}};
  const auto fit = fit_link(calls, ReductionOrder::kGlooRing);
  ASSERT_FALSE(fit.ok());
  EXPECT_EQ(fit.error().text(),
            "no collective of two or more ranks that takes time: a link cannot be fitted");
}

}  // namespace
}  // namespace lockstep
