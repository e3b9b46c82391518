#include "lockstep/laws/rules/detail/calls/call_judge.h"

#include <gmock/gmock.h>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::laws {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// The calls of three ranks in one group, each at a line of train.py.
class CallJudgeTest : public ::testing::Test {
 protected:
  static constexpr CallSite line(int number) { return {"train.py", number}; }

  static Signature all_reduce(int at, std::int64_t count = 4) {
    return {.op = CollectiveOp::kAllReduce, .count = count, .site = line(at)};
  }

  static Signature barrier(int at) { return {.op = CollectiveOp::kBarrier, .site = line(at)}; }

  /// After a step of the optimizer since the one before it.
  void call(std::int32_t rank, const Signature& signature) {
    calls::Caller& caller = group_.callers.at({}, {rank, 1});
    const std::int64_t seq = caller.n_calls;
    caller.count(signature, seq);
    group_.slots[seq].arrive(signature, {static_cast<std::int32_t>(seq), seq}, {rank, 1});
  }

  void all_call(const Signature& signature) {
    for (const std::int32_t rank : {0, 1, 2}) call(rank, signature);
  }

  std::optional<Finding> judge() {
    n_compared_ = group_.close_all();
    return CallJudge({forwards_, died_, decides_}).judge({0, 0}, group_);
  }

  ForwardKinds forwards_;
  std::set<std::int32_t> died_;
  bool decides_ = false;
  calls::GroupState group_;
  std::int64_t n_compared_ = 0;
};

TEST_F(CallJudgeTest, EqualCallsAreComparedAndMakeNoFinding) {
  for (int step = 0; step < 3; ++step) all_call(all_reduce(1));
  EXPECT_FALSE(judge());
  EXPECT_EQ(n_compared_, 6);
}

// Ranks 1 and 2 have no inputs left; rank 0 has two batches more.
TEST_F(CallJudgeTest, ACallBesideJoinIsTheOneThatNothingAnswers) {
  const auto scoped = [](int at, std::int64_t count, const char* scope) {
    Signature signature = all_reduce(at, count);
    signature.site.scope = scope;
    return signature;
  };
  all_call(all_reduce(9, 1));
  const std::vector<std::pair<Signature, Signature>> calls = {
      {scoped(3, 1, "ddp.forward"), scoped(1, 1, "ddp.join")},
      {scoped(5, 40, "ddp.backward"), scoped(1, 40, "ddp.join")},
      {all_reduce(9, 1), scoped(1, 1, "ddp.join")},
      {scoped(3, 1, "ddp.forward"), scoped(1, 40, "ddp.join")}};
  for (const auto& [own, shadow] : calls) {
    call(0, own);
    call(1, shadow);
    call(2, shadow);
  }
  const std::optional<Finding> finding = judge();
  ASSERT_TRUE(finding);
  EXPECT_EQ(id_of(finding->cause), "join-extra-call");
  EXPECT_THAT(finding->ranks, ElementsAre(Rank{0}));
  EXPECT_EQ(finding->site, "train.py:9");
  EXPECT_THAT(finding->message,
              HasSubstr("rank 0 calls all_reduce at train.py:9 inside join, but ranks 1, 2 have no "
                        "inputs left and only shadow"));
}

TEST_F(CallJudgeTest, ACallBesideJoinOfAnotherKindIsNamedAsWell) {
  Signature shadow = all_reduce(1);
  shadow.site.scope = "ddp.join";
  call(0, barrier(9));
  call(1, shadow);
  call(2, shadow);
  const std::optional<Finding> finding = judge();
  ASSERT_TRUE(finding);
  EXPECT_EQ(id_of(finding->cause), "join-extra-call");
  EXPECT_EQ(finding->site, "train.py:9");
}

TEST_F(CallJudgeTest, WhatAnswersTheWrappersCallsUnderJoinIsFine) {
  for (int step = 0; step < 3; ++step) {
    Signature own = all_reduce(5);
    own.site.scope = "ddp.backward";
    Signature shadow = all_reduce(1);
    shadow.site.scope = "ddp.join";
    call(0, own);
    call(1, shadow);
    call(2, shadow);
  }
  EXPECT_FALSE(judge());
}

TEST_F(CallJudgeTest, TheSideWithFewerRanksIsTheOneOutOfStep) {
  all_call(all_reduce(1));
  call(0, all_reduce(1));
  call(1, all_reduce(1));
  call(2, all_reduce(1, 3));
  const std::optional<Finding> finding = judge();
  ASSERT_TRUE(finding);
  EXPECT_THAT(finding->ranks, ElementsAre(Rank{2}));
  EXPECT_EQ(finding->seq, 1);
  EXPECT_EQ(finding->field, "count");
  EXPECT_EQ(finding->cause, Cause::kShapeMismatchCompletes);
}

TEST_F(CallJudgeTest, AMismatchBeforeTheFirstStepIsAtStepZero) {
  call(0, all_reduce(1));
  call(1, all_reduce(1));
  call(2, all_reduce(1, 3));
  const std::optional<Finding> finding = judge();
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->step, 0);
}

// However long the job runs, what all ranks have made or left out is not kept.
TEST_F(CallJudgeTest, ACallIsClosedOnceEveryRankHasMadeItOrLeftItOut) {
  for (int step = 0; step < 3; ++step) {
    for (const std::int32_t rank : {0, 1}) call(rank, all_reduce(1));
  }
  EXPECT_EQ(group_.close_complete(3), 0);
  EXPECT_EQ(group_.slots.size(), 3U);
  group_.leave_out(0, 1);
  EXPECT_EQ(group_.close_complete(3), 2);
  EXPECT_EQ(group_.slots.size(), 1U);
}

TEST_F(CallJudgeTest, ACallOfOneRankAloneIsCodeThatIsNotTheSameUnlessRanksDecide) {
  all_call(all_reduce(1));
  call(1, barrier(9));
  all_call(all_reduce(1));
  EXPECT_EQ(judge()->cause, Cause::kCodeSkew);
  decides_ = true;
  EXPECT_EQ(judge()->cause, Cause::kNone);
}

TEST_F(CallJudgeTest, ACallOfRank0AloneIsCalledThat) {
  all_call(all_reduce(1));
  call(0, barrier(9));
  all_call(all_reduce(1));
  const std::optional<Finding> finding = judge();
  ASSERT_TRUE(finding);
  EXPECT_THAT(finding->ranks, ElementsAre(Rank{0}));
  EXPECT_EQ(finding->cause, Cause::kRank0OnlyCollective);
}

TEST_F(CallJudgeTest, TwoCallsInTheOppositeOrderAreASwap) {
  call(0, barrier(1));
  call(0, all_reduce(2));
  for (const std::int32_t rank : {1, 2}) {
    call(rank, all_reduce(2));
    call(rank, barrier(1));
  }
  EXPECT_EQ(judge()->cause, Cause::kOrderSwap);
}

TEST_F(CallJudgeTest, AnExtraCallThatFitsByChanceIsNamedAndNotTheMismatchThatItLeadsTo) {
  // Rank 2 calls at line 8 what others call at line 1, and meets their barrier one call later.
  call(2, all_reduce(8));
  all_call(all_reduce(1));
  all_call(barrier(2));
  const std::optional<Finding> finding = judge();
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->seq, 0);
  EXPECT_EQ(finding->site, "train.py:8");
  EXPECT_THAT(finding->message, HasSubstr("call 1 is the first mismatch"));
}

TEST_F(CallJudgeTest, WhereARankDiedOneCallMoreThanOthersIsNoExtraCall) {
  call(0, all_reduce(8));
  all_call(all_reduce(1));
  ASSERT_TRUE(judge());
  EXPECT_EQ(judge()->cause, Cause::kRank0OnlyCollective);
  died_.insert(0);
  EXPECT_FALSE(judge());
}

}  // namespace
}  // namespace lockstep::laws
