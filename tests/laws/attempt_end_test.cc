#include "lockstep/laws/rules/detail/ends/attempt_end.h"

#include <gtest/gtest.h>

#include "lockstep/laws/rules/detail/ends/wait_explainer.h"

namespace lockstep::laws {
namespace {

constexpr Channel kWorld{};

/// Three ranks: 0 and 1 wait in call 0 of the world, rank 2 never made it.
class AttemptEndTest : public ::testing::Test {
 protected:
  AttemptEndTest() {
    for (const std::int32_t rank : {0, 1}) post(rank, kWorld, 0);
    for (const std::int32_t rank : {0, 1}) lives_[rank].outcome = EndOutcome::kStuck;
    lives_[2].outcome = EndOutcome::kOk;
  }

  void post(std::int32_t rank, const Channel& channel, std::int64_t seq) {
    RankLife& life = lives_[rank];
    life.n_posted[channel] = seq + 1;
    life.open.push_back({.channel = channel, .seq = seq, .signature = {}});
  }

  AttemptEnd end() const { return {0, worlds_, groups_, lives_}; }

  Finding explained() const {
    const AttemptEnd at_end = end();
    return WaitExplainer(at_end, forwards_).waiting_in(kWorld, 0);
  }

  Worlds worlds_{3};
  GroupMembers groups_;
  ForwardKinds forwards_;
  RankLives lives_;
};

TEST_F(AttemptEndTest, ARankThatNeverMadeACallIsMissing) {
  EXPECT_EQ(end().missing(kWorld, 0), (std::vector<Rank>{Rank{2}}));
  EXPECT_FALSE(end().all_posted(kWorld, 0));
  EXPECT_TRUE(end().is_stuck(lives_[0], lives_[0].open[0]));
  post(2, kWorld, 0);
  EXPECT_TRUE(end().missing(kWorld, 0).empty());
  EXPECT_TRUE(end().all_posted(kWorld, 0));
}

TEST_F(AttemptEndTest, ARankThatDiedInACallIsMissingFromIt) {
  post(2, kWorld, 0);
  lives_[2].outcome = EndOutcome::kKilled;
  EXPECT_EQ(end().missing(kWorld, 0), (std::vector<Rank>{Rank{2}}));
  EXPECT_FALSE(end().is_stuck(lives_[2], lives_[2].open[0])) << "a dead rank waits for nothing";
}

TEST_F(AttemptEndTest, ARankWithoutAnEndWhereOthersHaveOneHasVanished) {
  lives_[2].outcome = EndOutcome::kNone;
  EXPECT_TRUE(end().has_vanished(lives_[2]));
  for (const std::int32_t rank : {0, 1}) lives_[rank].outcome = EndOutcome::kNone;
  EXPECT_FALSE(end().has_vanished(lives_[2])) << "no rank says how it ended";
}

TEST_F(AttemptEndTest, MembersAreThoseOfTheEventElseThoseThatCalled) {
  const Channel channel{.group = 7};
  post(1, channel, 0);
  EXPECT_EQ(end().members(channel), (std::vector<std::int32_t>{1}));
  groups_[7] = {2, 1};
  EXPECT_EQ(end().members(channel), (std::vector<std::int32_t>{2, 1}));
  EXPECT_FALSE(end().is_made_by_all(channel));
  for (const std::int32_t rank : {1, 2}) lives_[rank].made.insert(7);
  EXPECT_TRUE(end().is_made_by_all(channel));
}

TEST_F(AttemptEndTest, ATraceThatStopsIsTheEndOfAKilledRank) {
  lives_[2].outcome = EndOutcome::kNone;
  const auto outcomes = end().outcomes();
  EXPECT_EQ(outcomes.at(EndOutcome::kStuck).size(), 2U);
  EXPECT_EQ(outcomes.at(EndOutcome::kKilled), (std::vector<Rank>{Rank{2}}));
}

TEST_F(AttemptEndTest, ABrokenLawMayHaveStoppedTheJob) {
  EXPECT_FALSE(end().was_stopped());
  lives_[1].reason = EndReason::kLawBroken;
  EXPECT_TRUE(end().was_stopped());
}

TEST_F(AttemptEndTest, AWaitNamesThoseWhoWaitAndWhatTheMissingRankDid) {
  const Finding finding = explained();
  EXPECT_EQ(finding.ranks, (std::vector<Rank>{Rank{0}, Rank{1}}));
  EXPECT_EQ(finding.missing, (std::vector<Rank>{Rank{2}}));
  EXPECT_NE(finding.message.find("rank 2 exited before making this call"), std::string::npos)
      << finding.message;
}

TEST_F(AttemptEndTest, AWaitThatAllMembersAreInNamesThoseInAnotherCall) {
  post(2, kWorld, 0);
  lives_[2].outcome = EndOutcome::kStuck;
  EXPECT_TRUE(explained().message.ends_with(": all members posted it, but it never completed"))
      << explained().message;
  lives_[2].open[0].signature = {.op = CollectiveOp::kBroadcast, .site = {"train.py", 30, ""}};
  EXPECT_TRUE(explained().message.ends_with(": rank 2 is in broadcast (train.py:30) instead"))
      << explained().message;
}

TEST_F(AttemptEndTest, AKilledRankIsACrashAndARankThatEndedWellIsNot) {
  lives_[2].outcome = EndOutcome::kKilled;
  EXPECT_EQ(explained().cause, Cause::kRankCrash);
  lives_[2].outcome = EndOutcome::kOk;
  EXPECT_EQ(explained().cause, Cause::kNone) << "it trained nothing, so nothing is known";
}

TEST_F(AttemptEndTest, RanksWithMoreForwardsHadMoreBatches) {
  for (const std::int32_t rank : {0, 1}) lives_[rank].n_forwards = 3;
  lives_[2].n_forwards = 2;
  EXPECT_EQ(explained().cause, Cause::kUnevenBatches);
}

// What a wrapper sends of buffers comes before its forward is recorded.
TEST_F(AttemptEndTest, RankZeroThatWaitsInAForwardOfAnEvaluationEvaluatesAlone) {
  const auto cause_of = [this](bool evaluates, const char* scope, bool others_too) {
    lives_[1].open.clear();
    lives_[1].n_posted.clear();
    lives_[1].outcome = EndOutcome::kOk;
    for (auto& [rank, life] : lives_) {
      life.n_forwards = 4;
      life.is_evaluating = rank == 0 ? evaluates : others_too;
    }
    Signature& waits_in = lives_[0].open.front().signature;
    waits_in.op = CollectiveOp::kBroadcast;
    waits_in.site.scope = scope;
    return explained().cause;
  };
  EXPECT_EQ(cause_of(true, "ddp.buffers", false), Cause::kRank0OnlyCollective);
  EXPECT_EQ(cause_of(false, "ddp.buffers", false), Cause::kUnevenBatches);
  EXPECT_EQ(cause_of(true, "ddp.buffers", true), Cause::kUnevenBatches);
  EXPECT_EQ(cause_of(true, "", false), Cause::kUnevenBatches) << "a broadcast of the program's own";
}

// A wrapper's ranks have made as many forwards, and one reduction fewer; a loop reduces what it likes.
TEST_F(AttemptEndTest, OnlyAWrapperMissesAReductionForABranchWithoutAGraph) {
  for (const bool synchronizing : {true, false}) {
    forwards_ = {};
    for (const std::int32_t rank : {0, 1, 2}) {
      Event forward;
      forward.rank = Rank{rank};
      forward.at.wrapper = 0;
      forward.body = ForwardEvent{.synchronizing = synchronizing};
      forwards_.on_event(forward);
      lives_[rank].n_forwards = 1;
    }
    EXPECT_EQ(explained().cause, synchronizing ? Cause::kBranchNoGraph : Cause::kNone);
  }
}

TEST_F(AttemptEndTest, SendersThatWaitForEachOtherAreACycleOfSends) {
  RankLives lives;
  for (const std::int32_t rank : {0, 1}) {
    const Channel message{.source = rank, .target = 1 - rank};
    lives[rank].open.push_back({.channel = message, .signature = {.op = CollectiveOp::kSend}});
  }
  const AttemptEnd at_end(0, worlds_, groups_, lives);
  EXPECT_EQ(WaitExplainer(at_end, forwards_).cause_of_cycle(), Cause::kSendSend);
}

}  // namespace
}  // namespace lockstep::laws
