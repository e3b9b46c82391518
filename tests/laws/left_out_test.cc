// collectives-match and progress where recorders left calls out, to keep a budget: written by hand.
#include <limits>

#include <gtest/gtest.h>

#include "tests/support/calls.h"
#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::Calls;
using testing::check;

constexpr CollectiveOp kAllReduce = CollectiveOp::kAllReduce;
constexpr CollectiveOp kBarrier = CollectiveOp::kBarrier;

/// The next `n` calls of a rank were made and not recorded.
void leave_out(Calls& calls, std::int32_t rank, std::int64_t n) {
  CollectiveEvent event = calls.make(kAllReduce, 40);
  event.phase = CollectivePhase::kCompleted;
  event.status = CallStatus::kLeftOut;
  std::int64_t& next = calls.next[static_cast<std::size_t>(rank)];
  next += n;
  event.seq = next - 1;
  calls.stream.add(rank, event);
}

void post(Calls& calls, std::int32_t rank, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) calls.post(rank, calls.make(kAllReduce, 40));
}

/// Ten calls each, of which each rank leaves out others.
Calls ten_calls() {
  Calls calls(3);
  post(calls, 0, 10);
  post(calls, 1, 1);
  leave_out(calls, 1, 6);
  post(calls, 1, 3);
  post(calls, 2, 2);
  leave_out(calls, 2, 2);
  post(calls, 2, 1);
  leave_out(calls, 2, 5);
  return calls;
}

TEST(LeftOutCallsTest, RanksThatLeaveOutDifferentCallsHaveMadeThemAll) {
  Calls calls = ten_calls();
  calls.end_all();
  const LawResult matched = check("collectives-match", calls.stream);
  EXPECT_EQ(matched.verdict, Verdict::kHolds);
  // Rank 1's calls 0, 7, 8, 9 and rank 2's 0, 1, 4 were compared with rank 0's.
  EXPECT_EQ(matched.n_checked, 7);
  EXPECT_EQ(check("progress", calls.stream).verdict, Verdict::kHolds);
}

TEST(LeftOutCallsTest, ARankThatNeverCameToACallIsNamedAlthoughItLeftOthersOut) {
  Calls calls = ten_calls();
  calls.post(0, calls.make(kAllReduce, 40), false);
  calls.post(1, calls.make(kAllReduce, 40), false);
  calls.end(0, EndOutcome::kStuck);
  calls.end(1, EndOutcome::kStuck);
  calls.end(2);
  const LawResult result = check("progress", calls.stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].seq, 10);
  EXPECT_EQ(result.findings[0].missing, (std::vector<Rank>{Rank{2}}));
}

TEST(LeftOutCallsTest, ACallThatALastStretchContainsWasMade) {
  Calls calls = ten_calls();
  calls.post(0, calls.make(kAllReduce, 40), false);
  leave_out(calls, 1, 1);
  leave_out(calls, 2, 1);
  calls.end_all();
  EXPECT_EQ(check("progress", calls.stream).verdict, Verdict::kHolds);
}

TEST(LeftOutCallsTest, AMismatchAfterCallsThatWereLeftOutHasItsOwnNumber) {
  Calls calls = ten_calls();
  post(calls, 0, 1);
  calls.post(1, calls.make(kBarrier, 12, "save.py"));
  post(calls, 2, 1);
  calls.end_all();
  const LawResult result = check("collectives-match", calls.stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].seq, 10);
  EXPECT_EQ(result.findings[0].ranks, (std::vector<Rank>{Rank{1}}));
}

TEST(LeftOutCallsTest, TwoRanksAreComparedWhereAThirdLeftTheCallOut) {
  Calls calls(3);
  post(calls, 0, 4);
  post(calls, 1, 3);
  calls.post(1, calls.make(kBarrier, 12, "save.py"));
  post(calls, 2, 1);
  leave_out(calls, 2, 3);
  calls.end_all();
  const LawResult result = check("collectives-match", calls.stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].seq, 3);
}

TEST(LeftOutCallsTest, CallsThatWereLeftOutCountForTheLineOfThoseBeforeThem) {
  // Rank 1 logs once more than rank 0; that rank 0 left calls out at line 40 does not mean that it made fewer there.
  Calls calls(2);
  post(calls, 0, 1);
  leave_out(calls, 0, 7);
  calls.post(0, calls.make(kAllReduce, 40));
  calls.post(0, calls.make(kBarrier, 90));
  post(calls, 1, 8);
  calls.post(1, calls.make(kAllReduce, 7, "log.py"));
  calls.post(1, calls.make(kAllReduce, 40));
  calls.post(1, calls.make(kBarrier, 90));
  calls.end_all();
  const LawResult result = check("collectives-match", calls.stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].site, "log.py:7");
  EXPECT_EQ(result.findings[0].seq, 8);
  EXPECT_EQ(result.findings[0].ranks, (std::vector<Rank>{Rank{1}}));
}

TEST(LeftOutCallsTest, ADamagedTraceMayClaimAnyNumber) {
  for (const std::int64_t seq : {std::numeric_limits<std::int64_t>::max() / 2, std::int64_t{0}}) {
    Calls calls(2);
    post(calls, 0, 2);
    post(calls, 1, 2);
    CollectiveEvent event = calls.make(kAllReduce, 40);
    event.phase = CollectivePhase::kCompleted;
    event.status = CallStatus::kLeftOut;
    event.seq = seq;
    calls.stream.add(1, event);
    calls.end_all();
    EXPECT_EQ(check("collectives-match", calls.stream).verdict, Verdict::kHolds);
    EXPECT_EQ(check("progress", calls.stream).verdict, Verdict::kHolds);
  }
}

TEST(LeftOutCallsTest, LinesThatStandForAMillionCallsEachAreJudgedAtOnce) {
  Calls calls(2);
  post(calls, 0, 1);
  post(calls, 1, 1);
  for (int line = 0; line < 300; ++line) {
    for (const std::int32_t rank : {0, 1}) leave_out(calls, rank, 1'000'000);
  }
  for (int line = 0; line < 300; ++line) leave_out(calls, 0, 1'000'000);
  post(calls, 0, 1);
  calls.post(1, calls.make(kBarrier, 12, "save.py"));
  calls.end_all();
  const LawResult result = check("collectives-match", calls.stream);
  EXPECT_EQ(result.n_checked, 1) << "call 0; rank 1's barrier meets one that rank 0 left out";
}

TEST(LeftOutCallsTest, ACallThatAllButOneLeftOutWaitsForIt) {
  Calls calls(3);
  for (const std::int32_t rank : {0, 1, 2}) post(calls, rank, 1);
  leave_out(calls, 0, 2);
  leave_out(calls, 1, 1);
  post(calls, 1, 1);
  post(calls, 2, 2);
  for (const std::int32_t rank : {0, 1}) post(calls, rank, 1);
  calls.post(2, calls.make(kBarrier, 12, "save.py"));
  calls.end_all();
  const LawResult result = check("collectives-match", calls.stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].seq, 3);
  EXPECT_EQ(result.findings[0].ranks, (std::vector<Rank>{Rank{2}}));
}

}  // namespace
}  // namespace lockstep
