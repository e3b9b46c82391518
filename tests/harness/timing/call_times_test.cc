#include "lockstep/harness/timing/call_times.h"

#include <gtest/gtest.h>

#include "tests/harness/timing/made_trace.h"

namespace lockstep {
namespace {

using Ranks = std::vector<std::int32_t>;

TEST(CallTimesTest, ACallTakesFromItsLastArrivalToItsLastResult) {
  MadeTrace made;
  made.call(0, 10, 100, made_all_reduce(0));
  made.call(1, 70, 90, made_all_reduce(0));
  made.call(2, 20, 100, made_all_reduce(0));
  const std::vector<GroupCall> calls = group_calls(made.trace());
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_EQ(calls[0].n_bytes, 1024);
  EXPECT_EQ(calls[0].n_ranks, 3);
  EXPECT_EQ(calls[0].waited_ns, 60);
  EXPECT_EQ(calls[0].took_ns, 30);
  EXPECT_EQ(calls[0].late, Ranks{1});
  EXPECT_EQ(calls[0].late_ns, 50);
}

TEST(CallTimesTest, ACallThatOneMemberDidNotCompleteIsLeftOut) {
  MadeTrace made;
  made.call(0, 10, 100, made_all_reduce(0));
  made.add(1, 70, made_all_reduce(0));
  EXPECT_TRUE(group_calls(made.trace()).empty());
}

TEST(CallTimesTest, MessagesAreLeftOut) {
  MadeTrace made;
  CollectiveEvent send{};
  send.signature.op = CollectiveOp::kSend;
  made.call(0, 10, 100, send);
  EXPECT_TRUE(group_calls(made.trace()).empty());
}

TEST(CallTimesTest, CallsOfTwoAttemptsAreTwoCalls) {
  MadeTrace made;
  CollectiveEvent call = made_all_reduce(0);
  for (const std::int32_t attempt : {0, 1}) {
    call.phase = CollectivePhase::kPosted;
    made.add(0, 10 + 100 * attempt, call, attempt);
    call.phase = CollectivePhase::kCompleted;
    made.add(0, 30 + 100 * attempt, call, attempt);
  }
  const std::vector<GroupCall> calls = group_calls(made.trace());
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_EQ(calls[1].took_ns, 20);
}

// The table of nccl-tests, doc/PERFORMANCE.md, for 4 ranks.
TEST(CallTimesTest, BytesAndBusBandwidthAreCountedAsNcclTestsCountsThem) {
  EXPECT_EQ(bytes_of(CollectiveOp::kAllReduce, DType::kF32, 10, 4), 40);
  EXPECT_EQ(bytes_of(CollectiveOp::kAllGather, DType::kF32, 10, 4), 160);
  EXPECT_EQ(bytes_of(CollectiveOp::kReduceScatter, DType::kF16, 40, 4), 80);
  EXPECT_EQ(bytes_of(CollectiveOp::kBroadcast, DType::kF64, 10, 4), 80);
  EXPECT_EQ(bus_factor(CollectiveOp::kAllReduce, 4), 1.5);
  EXPECT_EQ(bus_factor(CollectiveOp::kAllGather, 4), 0.75);
  EXPECT_EQ(bus_factor(CollectiveOp::kReduceScatter, 4), 0.75);
  EXPECT_EQ(bus_factor(CollectiveOp::kAllToAll, 4), 0.75);
  EXPECT_EQ(bus_factor(CollectiveOp::kBroadcast, 4), 1.0);
  EXPECT_EQ(bus_factor(CollectiveOp::kReduce, 4), 1.0);
  EXPECT_EQ(bus_factor(CollectiveOp::kAllReduce, 1), 0.0);
}

/// Eight ranks; those of `late` come `late_by` ns after the others.
void add_call(MadeTrace& made, std::int64_t seq, const Ranks& late, std::int64_t late_by) {
  for (std::int32_t rank = 0; rank < 8; ++rank) {
    const bool is_late = std::ranges::find(late, rank) != late.end();
    const std::int64_t posted = 1000 * seq + rank + (is_late ? late_by : 0);
    made.call(rank, posted, 1000 * seq + 900, made_all_reduce(seq));
  }
}

TEST(LateRanksTest, RanksThatComeLateTogetherAreNamedAsASet) {
  MadeTrace made;
  for (std::int64_t seq = 0; seq < 4; ++seq) add_call(made, seq, {4, 5, 6, 7}, 100 + seq);
  const auto late = late_ranks(group_calls(made.trace()), 8);
  ASSERT_TRUE(late.has_value());
  EXPECT_EQ(late->ranks, (Ranks{4, 5, 6, 7}));
  EXPECT_EQ(late->n_calls, 4);
  EXPECT_EQ(late->of_calls, 4);
  EXPECT_EQ(late->behind_ns, 102) << "the lower median of 101, 102, 103, 104: rank 4 after rank 3";
}

TEST(LateRanksTest, ThreeQuartersOfTheCallsAreNeeded) {
  MadeTrace made;
  for (std::int64_t seq = 0; seq < 3; ++seq) add_call(made, seq, {6, 7}, 100);
  add_call(made, 3, {0}, 100);
  EXPECT_TRUE(late_ranks(group_calls(made.trace()), 8).has_value());
  add_call(made, 4, {0}, 100);
  EXPECT_FALSE(late_ranks(group_calls(made.trace()), 8).has_value());
}

TEST(LateRanksTest, AMajorityIsNotLate) {
  MadeTrace made;
  for (std::int64_t seq = 0; seq < 4; ++seq) add_call(made, seq, {1, 2, 3, 4, 5, 6, 7}, 100);
  EXPECT_FALSE(late_ranks(group_calls(made.trace()), 8).has_value());
}

TEST(LateRanksTest, RanksThatAllComeAtOnceAreNotLate) {
  MadeTrace made;
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    made.call(rank, 10, 20, made_all_reduce(0));
    made.call(rank, 30, 40, made_all_reduce(1));
  }
  EXPECT_FALSE(late_ranks(group_calls(made.trace()), 2).has_value());
}

TEST(LateRanksTest, CallsOfPartOfTheWorldDoNotCount) {
  MadeTrace made;
  for (std::int64_t seq = 0; seq < 4; ++seq) add_call(made, seq, {7}, 100);
  EXPECT_FALSE(late_ranks(group_calls(made.trace()), 16).has_value());
}

}  // namespace
}  // namespace lockstep
