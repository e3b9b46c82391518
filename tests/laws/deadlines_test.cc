// progress on calls that a deadline ended: a late rank, a rank that crashed, and links that carry nothing.
#include <gtest/gtest.h>

#include "tests/support/calls.h"
#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::Calls;
using testing::check;

CollectiveEvent reduction(Calls& calls) { return calls.make(CollectiveOp::kAllReduce, 40); }

/// `rank` made its only call and raised what that failed with.
void fail(Calls& calls, std::int32_t rank, CallStatus status) {
  calls.post(rank, reduction(calls), false);
  CollectiveEvent failed = reduction(calls);
  failed.phase = CollectivePhase::kFailed;
  failed.status = status;
  calls.stream.add(rank, failed);
  calls.end(rank, EndOutcome::kException);
}

Finding found(const Calls& calls) { return check("progress", calls.stream).findings.at(0); }

TEST(DeadlineTest, ARankThatWasOnItsWayWhenAnotherGaveUpWasLate) {
  Calls calls(2);
  fail(calls, 0, CallStatus::kTimedOut);
  calls.stream.add(1, ForwardEvent{});
  calls.end(1, EndOutcome::kKilled);  // By the launcher, since rank 0 had failed.
  const Finding finding = found(calls);
  EXPECT_EQ(finding.missing, (std::vector<Rank>{Rank{1}}));
  EXPECT_EQ(id_of(finding.cause), "slow-rank0-timeout");
  EXPECT_TRUE(finding.message.starts_with("timed out in all_reduce (train.py:40)"))
      << finding.message;
}

TEST(DeadlineTest, ARankThatEndedByItselfOrLeftNoWordHasCrashed) {
  for (const bool has_end : {true, false}) {
    Calls calls(2);
    fail(calls, 0, CallStatus::kTimedOut);
    calls.stream.add(1, ForwardEvent{});
    if (has_end) calls.end(1, EndOutcome::kException);
    EXPECT_EQ(id_of(found(calls).cause), "rank-crash") << has_end;
  }
}

TEST(DeadlineTest, WithoutADeadlineARankThatWasAskedToEndCountsAsDead) {
  Calls calls(2);
  fail(calls, 0, CallStatus::kFailed);
  calls.stream.add(1, ForwardEvent{});
  calls.end(1, EndOutcome::kKilled);
  const Finding finding = found(calls);
  EXPECT_EQ(id_of(finding.cause), "rank-crash");
  EXPECT_TRUE(finding.message.starts_with("blocked forever in all_reduce")) << finding.message;
}

TEST(DeadlineTest, ARankThatFailedWithoutADeadlineArrivedAfterTheOthersTimedOut) {
  Calls calls(2);
  fail(calls, 0, CallStatus::kTimedOut);
  fail(calls, 1, CallStatus::kFailed);
  EXPECT_EQ(id_of(found(calls).cause), "slow-rank0-timeout");
}

// Times of a stream: 10 ns from event to event of a rank. Rank 0 gives up at 10 ns.
TEST(DeadlineTest, ARankArrivingAfterAnotherTimedOutIsReportedAsLate) {
  for (const bool late : {false, true}) {
    Calls calls(2);
    fail(calls, 0, CallStatus::kTimedOut);
    if (late) calls.stream.add(1, ForwardEvent{});
    fail(calls, 1, CallStatus::kTimedOut);
    EXPECT_EQ(id_of(found(calls).cause), late ? "slow-rank0-timeout" : "partition");
  }
}

}  // namespace
}  // namespace lockstep
