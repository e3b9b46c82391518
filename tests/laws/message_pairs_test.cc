#include "lockstep/laws/rules/detail/calls/message_pairs.h"

#include <gmock/gmock.h>

#include <gtest/gtest.h>

namespace lockstep::laws {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class MessagePairsTest : public ::testing::Test {
 protected:
  void post(std::int32_t rank,
            const Signature& call,
            std::int64_t seq = 0,
            std::int32_t group = 0) {
    Event event;
    event.rank = Rank{rank};
    event.at.opt = 5;
    pairs_.on_message(event, {.group = group, .seq = seq, .signature = call});
  }

  static Signature send(std::int32_t to, std::int64_t count, std::int32_t tag = 0) {
    return {.op = CollectiveOp::kSend, .peer = to, .tag = tag, .count = count};
  }

  static Signature recv(std::int32_t from, std::int64_t count, std::int32_t tag = 0) {
    return {.op = CollectiveOp::kRecv, .peer = from, .tag = tag, .count = count};
  }

  MessagePairs pairs_;
};

TEST_F(MessagePairsTest, WhatIsSentIsWhatIsReceivedWhicheverComesFirst) {
  post(0, send(1, 4), 0);
  post(1, recv(0, 4), 0);
  post(1, recv(0, 2), 1);
  post(0, send(1, 2), 1);
  EXPECT_EQ(pairs_.n_pairs(), 2);
  EXPECT_THAT(pairs_.findings(), IsEmpty());
}

TEST_F(MessagePairsTest, AReceiverThatExpectsAnotherCountIsReportedAtItsStep) {
  post(2, recv(0, 3));
  post(0, send(2, 4));
  ASSERT_THAT(pairs_.findings(), SizeIs(1));
  const Finding& finding = pairs_.findings().front();
  EXPECT_EQ(finding.field, "count");
  EXPECT_THAT(finding.ranks, ElementsAre(Rank{2}));
  EXPECT_EQ(finding.step, 5);
  EXPECT_THAT(finding.message,
              HasSubstr("rank 0 called send(f32[4]) where rank 2 called recv(f32[3])"));
}

TEST_F(MessagePairsTest, TheElementTypeIsComparedBeforeTheCount) {
  Signature other = recv(0, 8);
  other.dtype = DType::kBF16;
  post(0, send(1, 4));
  post(1, other);
  ASSERT_THAT(pairs_.findings(), SizeIs(1));
  EXPECT_EQ(pairs_.findings().front().field, "dtype");
}

TEST_F(MessagePairsTest, TagsNumbersAndDirectionsKeepMessagesApart) {
  post(0, send(1, 4, 1));
  post(1, recv(0, 2, 2));
  post(1, send(0, 2, 1));
  post(1, recv(0, 2, 1), 1);
  EXPECT_EQ(pairs_.n_pairs(), 0);
}

TEST_F(MessagePairsTest, MessagesOfOtherGroupsAreNotCompared) {
  post(0, send(1, 4), 0, 1);
  post(1, recv(0, 2), 0, 1);
  EXPECT_EQ(pairs_.n_pairs(), 0);
  EXPECT_THAT(pairs_.findings(), IsEmpty());
}

}  // namespace
}  // namespace lockstep::laws
