#include "lockstep/trace/detail/open_calls.h"

#include <gtest/gtest.h>

namespace lockstep::detail {
namespace {

CollectiveEvent call_of(CollectiveOp op, std::int64_t seq) {
  CollectiveEvent call;
  call.seq = seq;
  call.signature.op = op;
  return call;
}

CollectiveEvent ended(CollectiveEvent call, CollectivePhase phase, CallStatus status) {
  call.phase = phase;
  call.status = status;
  return call;
}

TEST(OpenCallsTest, ACallLastsFromItsPostToItsEnd) {
  OpenCalls calls;
  const CollectiveEvent call = call_of(CollectiveOp::kAllReduce, 7);
  calls.post(call, 2, 100);
  const auto entry = calls.end(ended(call, CollectivePhase::kFailed, CallStatus::kPeerLost), 250);
  ASSERT_TRUE(entry.has_value());
  EXPECT_EQ(entry->name, "all_reduce #7");
  EXPECT_EQ(entry->rank, 2);
  EXPECT_EQ(entry->start, 100);
  EXPECT_EQ(entry->end, 250);
  EXPECT_EQ(entry->status, "peer_lost");
  EXPECT_TRUE(entry->failed);
}

TEST(OpenCallsTest, AnEndWithoutItsPostIsNoEntry) {
  OpenCalls calls;
  const CollectiveEvent call = call_of(CollectiveOp::kAllReduce, 0);
  calls.post(call, 0, 0);
  CollectiveEvent other = ended(call, CollectivePhase::kCompleted, CallStatus::kOk);
  other.seq = 1;
  EXPECT_FALSE(calls.end(other, 1).has_value());
  other.seq = 0;
  EXPECT_TRUE(calls.end(other, 1).has_value());
  EXPECT_FALSE(calls.end(other, 2).has_value()) << "it has ended";
}

TEST(OpenCallsTest, OurReducerNamesWhatABucketHoldsAndPyTorchsCallsHaveItsScope) {
  const auto category_of = [](const CollectiveEvent& call) {
    OpenCalls calls;
    calls.post(call, 0, 0);
    return calls.abandon(1).front().category;
  };
  CollectiveEvent call = call_of(CollectiveOp::kAllReduce, 0);
  EXPECT_EQ(category_of(call), TimelineCategory::kCollective);
  CollectiveEvent ours = call;
  ours.signature.layout = 7;
  EXPECT_EQ(category_of(ours), TimelineCategory::kBucket);
  CollectiveEvent theirs = call;
  theirs.signature.site.scope = "ddp.backward";
  EXPECT_EQ(category_of(theirs), TimelineCategory::kBucket);
  theirs.signature.dtype = DType::kI32;
  EXPECT_EQ(category_of(theirs), TimelineCategory::kCollective) << "which parameters were used";
  EXPECT_TRUE(is_awaited_by_backward(theirs));
  call.signature.site.scope = "ddp.forward";
  EXPECT_FALSE(is_awaited_by_backward(call));
}

TEST(OpenCallsTest, MessagesOfOneNumberDifferByTheirPeers) {
  OpenCalls calls;
  for (const std::int32_t peer : {1, 2}) {
    CollectiveEvent call = call_of(CollectiveOp::kSend, 0);
    call.signature.peer = peer;
    calls.post(call, 0, peer);
  }
  CollectiveEvent end = call_of(CollectiveOp::kSend, 0);
  end.signature.peer = 2;
  EXPECT_EQ(calls.end(ended(end, CollectivePhase::kCompleted, CallStatus::kOk), 9)->start, 2);
  const std::vector<TimelineEntry> left = calls.abandon(20);
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].start, 1);
}

TEST(OpenCallsTest, WhatNeverEndsIsDrawnToTheEndAndForgotten) {
  OpenCalls calls;
  calls.post(call_of(CollectiveOp::kBarrier, 3), 0, 5);
  const std::vector<TimelineEntry> left = calls.abandon(50);
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].end, 50);
  EXPECT_EQ(left[0].status, "never completed");
  EXPECT_TRUE(left[0].failed);
  EXPECT_TRUE(calls.abandon(60).empty());
}

}  // namespace
}  // namespace lockstep::detail
