#include "lockstep/harness/timing/step_calls.h"

#include <gtest/gtest.h>

#include "tests/harness/timing/made_trace.h"

namespace lockstep {
namespace {

SizedCalls all_reduces(std::int64_t n, std::int64_t n_bytes = 1024) {
  return {.op = CollectiveOp::kAllReduce, .n_bytes = n_bytes, .n_ranks = 2, .n = n};
}

CollectiveEvent reduction(std::int64_t seq, bool bucket) {
  CollectiveEvent call = made_all_reduce(seq);
  call.signature.async = true;
  call.signature.layout = bucket ? 1 : 0;
  return call;
}

/// Both ranks; the second comes 5 ns after the first.
void both(MadeTrace& made,
          std::int64_t posted,
          std::int64_t completed,
          const CollectiveEvent& call) {
  made.call(0, posted, completed, call);
  made.call(1, posted + 5, completed, call);
}

void begin(MadeTrace& made, std::int64_t ns) {
  for (const std::int32_t rank : {0, 1}) made.forward(rank, ns);
}

void end(MadeTrace& made, std::int64_t backward, std::int64_t step) {
  for (const std::int32_t rank : {0, 1}) made.backward(rank, backward);
  for (const std::int32_t rank : {0, 1}) made.step(rank, step);
}

// 15..40, 25..60 and 85..90, of which 25..40 is under way twice.
TEST(StepCallsTest, TimeInWhichACallWaitsForAnotherCountsOnce) {
  MadeTrace made;
  begin(made, 0);
  both(made, 10, 40, reduction(0, true));
  both(made, 20, 60, reduction(1, true));
  both(made, 80, 90, reduction(2, true));
  end(made, 95, 100);
  const std::vector<StepCalls> steps = step_calls(made.trace());
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].calls, std::vector{all_reduces(3)});
  EXPECT_EQ(steps[0].busy_ns, (60 - 15) + (90 - 85));
  EXPECT_EQ(steps[0].n_steps, 1);
}

TEST(StepCallsTest, WhatABackwardAwaitsHasEndedWithItAndOtherCallsWithTheStep) {
  for (const bool bucket : {true, false}) {
    MadeTrace made;
    begin(made, 0);
    both(made, 10, 500, reduction(0, bucket));
    end(made, 60, 100);
    const std::vector<StepCalls> steps = step_calls(made.trace());
    ASSERT_EQ(steps.size(), 1U);
    EXPECT_EQ(steps[0].busy_ns, bucket ? 60 - 15 : 100 - 15);
  }
}

TEST(StepCallsTest, ACallAfterTheBackwardDoesNotEndWithIt) {
  MadeTrace made;
  begin(made, 0);
  for (const std::int32_t rank : {0, 1}) made.backward(rank, 20);
  both(made, 30, 50, reduction(0, true));
  for (const std::int32_t rank : {0, 1}) made.step(rank, 100);
  const std::vector<StepCalls> steps = step_calls(made.trace());
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].busy_ns, 50 - 35);
}

// The first step reduces everything at once.
TEST(StepCallsTest, StepsWithTheSameCallsAreOneKindWithTheirMedian) {
  MadeTrace made;
  std::int64_t seq = 0;
  for (std::int64_t step = 0; step < 4; ++step) {
    const std::int64_t from = 1000 * step;
    begin(made, from);
    CollectiveEvent call = reduction(seq++, true);
    call.signature.count = step == 0 ? 512 : 256;
    both(made, from + 10, from + 100 * (step + 1), call);
    if (step > 0) both(made, from + 500, from + 510, reduction(seq++, true));
    end(made, from + 600, from + 700);
  }
  const std::vector<StepCalls> steps = step_calls(made.trace());
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0].calls, std::vector{all_reduces(2)});
  EXPECT_EQ(steps[0].busy_ns, (300 - 15) + (510 - 505)) << "of steps 1 to 3, the second";
  EXPECT_EQ(steps[0].n_steps, 3);
  EXPECT_EQ(steps[1].calls, std::vector{all_reduces(1, 2048)});
  EXPECT_EQ(steps[1].busy_ns, 100 - 15);
}

TEST(StepCallsTest, CallsOutsideOfStepsAndOfOneRankAreLeftOut) {
  MadeTrace made;
  both(made, 0, 10, reduction(0, false));
  begin(made, 20);
  made.call(0, 30, 40, reduction(1, false));
  end(made, 50, 60);
  both(made, 70, 80, reduction(2, false));
  EXPECT_TRUE(step_calls(made.trace()).empty());
}

}  // namespace
}  // namespace lockstep
