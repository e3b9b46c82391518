// What a first step says of parameters that the first forward found different.
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/laws/live_check.h"

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::DdpJob;
using testing::policy_of;

/// Equal when wrapped; each rank has climbed along its own gradient when the first forward begins.
DdpJob climbed(std::int32_t n_ranks) {
  DdpJob job(n_ranks);
  job.wrap();
  for (std::int32_t rank = 0; rank < n_ranks; ++rank) job.weight(rank) += 0.125 * (rank + 1);
  job.begin();
  return job;
}

void go_back(DdpJob& job) { job.weights.assign(job.weights.size(), 1.0); }

Cause only_cause(const LawResult& result) {
  return result.findings.size() == 1 ? result.findings[0].cause : Cause::kNone;
}

TEST(FirstStepsTest, ADifferenceThatIsUndoneBeforeTheStepIsNotReported) {
  for (const std::int32_t n_ranks : {2, 3}) {
    DdpJob job = climbed(n_ranks);
    go_back(job);
    job.train_step(std::vector<double>(static_cast<std::size_t>(n_ranks), 2.0));
    const LawResult result = check("init-equal", job.stream);
    EXPECT_EQ(result.verdict, Verdict::kHolds);
    EXPECT_EQ(result.n_checked, n_ranks - 1);
  }
}

TEST(FirstStepsTest, ADifferenceThatTheStepLeavesIsReported) {
  for (const std::int32_t late : {0, 1, 2}) {
    DdpJob job = climbed(3);
    go_back(job);
    job.weight(late) = 1.125;
    job.train_step({2.0, 2.0, 2.0});
    job.train_step({2.0, 2.0, 2.0});
    const LawResult result = check("init-equal", job.stream);
    EXPECT_EQ(only_cause(result), Cause::kParameterNudged);
    EXPECT_EQ(result.findings.at(0).event, "forward");
    EXPECT_EQ(result.findings.at(0).ranks, (std::vector<Rank>{Rank{1}, Rank{2}}));
  }
}

TEST(FirstStepsTest, TheFirstStepDecidesAndNotALaterOne) {
  DdpJob job = climbed(2);
  job.train_step({2.0, 2.0});
  go_back(job);
  job.train_step({2.0, 2.0});
  EXPECT_EQ(only_cause(check("init-equal", job.stream)), Cause::kParameterNudged);
}

TEST(FirstStepsTest, AJobThatEndsBeforeItsFirstStepKeepsTheFinding) {
  EXPECT_EQ(only_cause(check("init-equal", climbed(2).stream)), Cause::kParameterNudged);
  DdpJob job = climbed(2);
  go_back(job);
  job.forward(0);
  job.step(0, 2.0);  // Rank 1 never does.
  EXPECT_EQ(only_cause(check("init-equal", job.stream)), Cause::kParameterNudged);
}

TEST(FirstStepsTest, WhatTheWrapperLeftDifferentIsNotExcused) {
  DdpJob job(2);
  job.weights = {1.0, 2.0};
  job.wrap(false);
  job.begin();
  go_back(job);
  job.train_step({2.0, 2.0});
  EXPECT_EQ(only_cause(check("init-equal", job.stream)), Cause::kInitNoBroadcast);
}

TEST(FirstStepsTest, PartsOfTensorsExcuseNothing) {
  DdpJob job = climbed(2);
  go_back(job);
  job.train_step({2.0, 2.0});
  LawPolicy policy = policy_of(2);
  policy.coverage = 4;
  EXPECT_EQ(only_cause(check("init-equal", job.stream, policy)), Cause::kParameterNudged);
}

TEST(FirstStepsTest, AStepAfterALoadSaysNothingOfTheStart) {
  DdpJob job = climbed(2);
  go_back(job);
  for (const std::int32_t rank : {0, 1}) job.state(rank, StatePoint::kLoad);
  job.begin();
  job.train_step({2.0, 2.0});
  std::vector<std::uint32_t> by_turns;
  for (std::uint32_t i = 0; i < 32; ++i) by_turns.push_back(i % 2);
  EXPECT_EQ(only_cause(check("init-equal", job.stream, policy_of(2), by_turns)),
            Cause::kParameterNudged);
}

/// Every tensor is put back by itself; two optimizers leave a layout each.
TEST(FirstStepsTest, EachOptimizersStepSpeaksForItsOwnTensors) {
  for (const bool second_put_back : {true, false}) {
    DdpJob job(2);
    const LayoutId both = job.stream.layout({"a", "b"});
    const auto state = [&](std::int32_t rank, StatePoint point, LayoutId layout, auto... digests) {
      const std::uint64_t all[] = {static_cast<std::uint64_t>(digests)...};
      job.stream.add(rank, StateEvent{.point = point, .layout = layout, .digests = all});
    };
    for (const std::int32_t rank : {0, 1}) {
      job.at(rank);
      job.stream.add(rank, WrapEvent{.params = both, .n_ranks = 2});
      state(rank, StatePoint::kWrap, both, 1, 1);
      state(rank, StatePoint::kForward, both, 2 + rank, 2 + rank);
      state(rank, StatePoint::kStep, job.stream.layout({"a"}), 4);
      state(rank, StatePoint::kStep, job.stream.layout({"b"}), second_put_back ? 4 : 4 + rank);
    }
    const LawResult result = check("init-equal", job.stream);
    ASSERT_EQ(result.findings.size(), second_put_back ? 0U : 1U);
    if (second_put_back) continue;
    EXPECT_EQ(result.findings[0].tensor, "b");
  }
}

TEST(FirstStepsTest, AStartThatWasPutRightExplainsNoLaterDifference) {
  for (const bool put_back : {true, false}) {
    DdpJob job = climbed(2);
    if (put_back) go_back(job);
    job.train_step({2.0, 2.0});
    for (const std::int32_t rank : {0, 1}) {
      job.forward(rank);
      job.reduce(rank, 1.0, 1.0, 1.0);
      job.step(rank, 1.0, rank == 1 ? 0.5 : 1.0);
    }
    const LawResult result = check("replicas-equal", job.stream);
    EXPECT_EQ(only_cause(result), put_back ? Cause::kLrPerRank : Cause::kParameterNudged);
    EXPECT_EQ(result.findings.at(0).step, put_back ? 1 : 0);
  }
}

/// What is certain after this many steps of a job that is still running.
LawResult live(bool put_back, bool stepped) {
  DdpJob job = climbed(2);
  if (put_back) go_back(job);
  if (stepped) job.train_step({2.0, 2.0});
  // A second wrapper's steps are why its ranks are level although the first one has not stepped.
  job.wrapper = 1;
  go_back(job);
  job.wrap();
  job.begin();
  job.train_step({2.0, 2.0});
  job.train_step({2.0, 2.0});
  TraceHeader header;
  header.n_ranks = 2;
  LiveCheck checked =
      std::move(LiveCheck::make(header, policy_of(2), job.stream.shared_names()).value());
  job.stream.play(checked);
  EXPECT_GT(checked.n_cuts(), 0);
  for (const LawResult& law : checked.finish()) {
    if (law.law == "init-equal") return law;
  }
  return {};
}

TEST(FirstStepsTest, WhileTheJobRunsNothingIsSaidThatAStepMayRefute) {
  EXPECT_TRUE(live(false, false).findings.empty());
  EXPECT_TRUE(live(true, false).findings.empty());
  EXPECT_TRUE(live(true, true).findings.empty());
  EXPECT_EQ(only_cause(live(false, true)), Cause::kParameterNudged);
}

}  // namespace
}  // namespace lockstep
