// The values that the scheduler and its parts ask, each without the others.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/sim/fiber/detail/deaths.h"
#include "lockstep/sim/fiber/detail/enabled_actions.h"
#include "lockstep/sim/fiber/detail/progress.h"
#include "lockstep/sim/fiber/detail/timers.h"

#include "tests/sim/support/scripted_strategy.h"

namespace lockstep::sim {
namespace {

using testing::Calls;
using testing::Scripted;

constexpr ActionId kTransfer{7};

ActionTable::Entry transfer() {
  return {.action = {.id = kTransfer, .kind = ActionKind::kTransfer}, .timer = 3};
}

TEST(EnabledActionsTest, AnActionWaitsForTheMainContextOnceItWasChosen) {
  Scripted strategy(false);
  EnabledActions actions;
  actions.start(strategy, 2);
  EXPECT_FALSE(actions.any());
  actions.enable(Action{.id = resume_id(Rank{1})});
  actions.enable(transfer());
  EXPECT_EQ(actions.n_enabled(), 2U);
  strategy.next = kTransfer;
  EXPECT_TRUE(actions.take(actions.ask()));
  EXPECT_TRUE(actions.has_taken());
  EXPECT_EQ(actions.n_enabled(), 1U);
  EXPECT_EQ(actions.take_out().timer, 3);
  EXPECT_FALSE(actions.has_taken());
  actions.take_resumption();
  EXPECT_FALSE(actions.any());
  EXPECT_EQ(strategy.calls, (Calls{"start 2", "enabled 1", "enabled 7"}));
}

TEST(EnabledActionsTest, WhatIsNotEnabledCanBeNeitherTakenNorDisabled) {
  Scripted strategy(false);
  EnabledActions actions;
  actions.start(strategy, 2);
  EXPECT_FALSE(actions.take(kTransfer));
  EXPECT_THROW(actions.disable(kTransfer), ContractViolation);
  actions.enable(transfer());
  actions.disable(kTransfer);
  EXPECT_FALSE(actions.any());
  EXPECT_FALSE(actions.take(kTransfer));
  EXPECT_EQ(strategy.calls.back(), "disabled 7");
}

TEST(EnabledActionsTest, OnlyAStrategyThatWatchesLearnsOfObjectsAndUntilItIsDismissed) {
  for (const bool watches : {false, true}) {
    Scripted strategy(watches);
    EnabledActions actions;
    actions.start(strategy, 1);
    actions.touch(5);
    actions.note_quiet();
    actions.dismiss();
    actions.touch(6);
    EXPECT_TRUE(actions.is_dismissed());
    EXPECT_EQ(strategy.calls, watches ? (Calls{"start 1", "touch 5", "quiet"}) : Calls{"start 1"});
    actions.start(strategy, 1);
    EXPECT_FALSE(actions.is_dismissed()) << "of another run";
  }
}

TEST(DeathsTest, ARankThatWasKilledByNameKeepsItsReasonInATeardown) {
  Deaths deaths;
  deaths.kill(Rank{1}, "out of memory");
  deaths.tear_down(RankOutcome::kStuck, "stuck", EndReason::kLivelock);
  EXPECT_TRUE(deaths.is_tearing_down());
  EXPECT_EQ(deaths.outcome_of(Rank{0}), RankOutcome::kStuck);
  EXPECT_EQ(deaths.outcome_of(Rank{1}), RankOutcome::kKilled);
  EXPECT_EQ(deaths.reason_of(Rank{1}), "out of memory");
  EXPECT_EQ(deaths.why_of(Rank{1}), EndReason::kNone);
  EXPECT_EQ(deaths.reason_of(Rank{0}), "stuck");
  EXPECT_EQ(deaths.why_of(Rank{0}), EndReason::kLivelock);
}

TEST(ProgressTest, TheBudgetOfPointsCountsFromTheLastProgress) {
  Progress progress;
  for (int round = 0; round < 2; ++round) {
    EXPECT_TRUE(progress.spend_point(2));
    EXPECT_TRUE(progress.spend_point(2));
    EXPECT_FALSE(progress.spend_point(2));
    progress.note();
  }
}

// 64 polls and four a runnable rank: then time may pass.
TEST(ProgressTest, PollsInARowLetTimePassAndAnythingElseBetweenThemDoesNot) {
  constexpr std::size_t kReady = 3;
  Progress progress;
  for (int i = 0; i < 64 + 4 * 3; ++i) EXPECT_FALSE(progress.only_polls(true, kReady)) << i;
  EXPECT_TRUE(progress.only_polls(true, kReady));
  EXPECT_FALSE(progress.only_polls(false, kReady));
  EXPECT_FALSE(progress.only_polls(true, kReady));
}

TEST(ProgressTest, AThousandDaemonsAfterTheVerdictAreWaitedFor) {
  Progress progress;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(progress.may_wait_for_daemons());
    progress.note_daemons();
  }
  EXPECT_FALSE(progress.may_wait_for_daemons());
  progress.note_end();
  EXPECT_TRUE(progress.may_wait_for_daemons()) << "a rank has ended: something came of it";
}

TEST(TimersTest, EqualTimesComeOutAsTheyWentInAndDaemonsAloneKeepNothingAlive) {
  Timers timers;
  timers.push({.time = VirtualTime{5}, .rank = 1});
  timers.push({.time = VirtualTime{3}, .rank = 2, .daemon = true});
  timers.push({.time = VirtualTime{5}, .rank = 3, .daemon = true});
  EXPECT_FALSE(timers.only_daemons());
  EXPECT_EQ(timers.pop().rank, 2);
  EXPECT_EQ(timers.pop().rank, 1);
  EXPECT_TRUE(timers.only_daemons());
  EXPECT_EQ(timers.pop().rank, 3);
  EXPECT_TRUE(timers.empty());
}

TEST(TimersTest, HandlersNumbersAreUsedAgain) {
  TimerHandlers handlers;
  std::vector<int> called;
  const std::int32_t first = handlers.keep([&] { called.push_back(1); });
  const std::int32_t second = handlers.keep([&] { called.push_back(2); });
  EXPECT_NE(first, second);
  handlers.take(first)();
  EXPECT_EQ(handlers.keep([&] { called.push_back(3); }), first);
  handlers.take(second)();
  handlers.take(first)();
  EXPECT_EQ(called, (std::vector<int>{1, 2, 3}));
}

}  // namespace
}  // namespace lockstep::sim
