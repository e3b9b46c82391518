#include "lockstep/harness/timing/rank_steps.h"

#include <gtest/gtest.h>

#include "tests/harness/timing/made_trace.h"

namespace lockstep {
namespace {

CollectiveEvent bucket(std::int64_t seq) {
  CollectiveEvent call{.seq = seq};
  call.signature.op = CollectiveOp::kAllReduce;
  call.signature.async = true;
  call.signature.layout = 1;
  return call;
}

CollectiveEvent plain(std::int64_t seq, bool async) {
  CollectiveEvent call = bucket(seq);
  call.signature.layout = 0;
  call.signature.async = async;
  return call;
}

// 10..110, buckets under way in 40..60 and 80..100: computing until 80, then waiting until 100.
TEST(RankStepsTest, AStepWaitsFromTheLastBucketsPostUntilTheLastBucketHasCompleted) {
  MadeTrace made;
  made.forward(0, 10);
  made.call(0, 40, 60, bucket(0));
  made.call(0, 80, 100, bucket(1));
  made.backward(0, 105);
  made.step(0, 110);
  const std::vector<StepTimes> steps = rank_steps(made.trace());
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].start_ns, 10);
  EXPECT_EQ(steps[0].end_ns, 110);
  EXPECT_EQ(steps[0].communication_ns, 20 + 20);
  EXPECT_EQ(steps[0].exposed_ns, 20);
}

// Calls that overlap are communication once: 20..70 and 40..90 are 70 ns, of which 50 are exposed.
TEST(RankStepsTest, TimeInWhichTwoCallsAreUnderWayCountsOnce) {
  MadeTrace made;
  made.forward(0, 0);
  CollectiveEvent first = bucket(0);
  CollectiveEvent second = bucket(1);
  made.add(0, 20, first);
  made.add(0, 40, second);
  first.phase = second.phase = CollectivePhase::kCompleted;
  made.add(0, 70, first);
  made.add(0, 90, second);
  made.backward(0, 90);
  made.step(0, 100);
  const std::vector<StepTimes> steps = rank_steps(made.trace());
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].communication_ns, 70);
  EXPECT_EQ(steps[0].exposed_ns, 50);
}

TEST(RankStepsTest, ASynchronousCallIsExposedAndAnAsynchronousOneOfTheProgramIsCountedApart) {
  MadeTrace made;
  made.forward(0, 0);
  made.call(0, 10, 15, plain(0, false));
  made.call(0, 20, 50, plain(1, true));
  made.step(0, 60);
  const std::vector<StepTimes> steps = rank_steps(made.trace());
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].communication_ns, 5 + 30);
  EXPECT_EQ(steps[0].exposed_ns, 5);
  EXPECT_EQ(steps[0].n_own_async, 1);
}

TEST(RankStepsTest, AnAccumulatedStepBeginsAtItsFirstForward) {
  MadeTrace made;
  made.forward(0, 5);
  made.backward(0, 10);
  made.forward(0, 10);
  made.call(0, 20, 30, bucket(0));
  made.backward(0, 30);
  made.step(0, 35);
  const std::vector<StepTimes> steps = rank_steps(made.trace());
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].start_ns, 5);
  EXPECT_EQ(steps[0].exposed_ns, 10);
}

// PyTorch's reducer posts without a word on what is in a bucket: its calls have a scope. As above, 20 ns are exposed.
TEST(RankStepsTest, ABackwardAwaitsTheCallsOfPyTorchsReducer) {
  MadeTrace made;
  made.forward(0, 10);
  for (const std::int64_t seq : {0, 1}) {
    CollectiveEvent call = plain(seq, true);
    call.signature.site.scope = "ddp.backward";
    made.call(0, 40 * (seq + 1), 40 * (seq + 1) + 20, call);
  }
  made.backward(0, 105);
  made.step(0, 110);
  const std::vector<StepTimes> steps = rank_steps(made.trace());
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].exposed_ns, 20);
  EXPECT_EQ(steps[0].n_own_async, 0);
  EXPECT_EQ(steps[0].backward_end_ns, 105);
}

// Of two micro-steps, 10..30 and 60..90, of which the first has two forwards; a loss that is only looked at ends nothing.
TEST(RankStepsTest, ForwardsLastUntilTheirLosses) {
  MadeTrace made;
  made.forward(0, 10);
  made.forward(0, 15);
  made.add(0, 20, LossEvent{.grad = false});
  made.add(0, 30, LossEvent{});
  made.add(0, 40, LossEvent{});
  made.backward(0, 50);
  made.forward(0, 60);
  made.add(0, 90, LossEvent{});
  made.step(0, 100);
  made.forward(0, 110);
  made.step(0, 130);
  const std::vector<StepTimes> steps = rank_steps(made.trace());
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0].forward_ns, 20 + 30);
  EXPECT_EQ(steps[1].forward_ns, 0) << "no loss is known";
}

TEST(RankStepsTest, AnEvaluationBelongsToNoStep) {
  MadeTrace made;
  made.add(0, 0, PhaseEvent{.kind = PhaseKind::kEval});
  made.add(0, 1, ForwardEvent{.grad = false});
  made.call(0, 2, 50, plain(0, false));
  made.add(0, 60, PhaseEvent{.kind = PhaseKind::kTrain});
  made.forward(0, 60);
  made.step(0, 70);
  const std::vector<StepTimes> steps = rank_steps(made.trace());
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].start_ns, 60);
  EXPECT_EQ(steps[0].communication_ns, 0);
}

TEST(RankStepsTest, AsynchronousCallsBetweenStepsBelongToNoStep) {
  MadeTrace made;
  made.forward(0, 0);
  made.step(0, 10);
  made.call(0, 12, 15, plain(0, true));
  made.forward(0, 20);
  made.step(0, 30);
  const std::vector<StepTimes> steps = rank_steps(made.trace());
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[1].n_own_async, 0);
  EXPECT_EQ(steps[1].communication_ns, 0);
}

TEST(RankStepsTest, AStepThatARestartCutShortIsNotCounted) {
  MadeTrace made;
  made.forward(0, 0);
  made.add(0, 100, ForwardEvent{}, 1);
  made.add(0, 130, StepEvent{}, 1);
  const std::vector<StepTimes> steps = rank_steps(made.trace());
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].start_ns, 100);
}

TEST(RankStepsTest, ACallThatNeverCompletesIsNoCommunication) {
  MadeTrace made;
  made.forward(0, 0);
  made.add(0, 10, bucket(0));
  made.step(0, 30);
  const std::vector<StepTimes> steps = rank_steps(made.trace());
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].communication_ns, 0);
  EXPECT_EQ(steps[0].exposed_ns, 0);
}

}  // namespace
}  // namespace lockstep
