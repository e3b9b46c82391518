#include "lockstep/sim/fiber/detail/standstill.h"

#include <gmock/gmock.h>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "tests/sim/fiber/parts.h"
#include "tests/sim/support/scripted_strategy.h"

namespace lockstep::sim {
namespace {

using testing::Calls;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::Parts;
using testing::Scripted;

TEST(StandstillTest, TheOutsideIsAskedInOrderUntilSomethingCanHappen) {
  Parts world({.n_ranks = 1});
  std::vector<int> asked;
  world.standstill.on_idle([&](bool at_end) { asked.push_back(at_end ? 10 : 1); });
  world.standstill.on_idle([&](bool at_end) {
    asked.push_back(at_end ? 20 : 2);
    if (at_end) world.turns.make_ready(world.rank(0), {});
  });
  world.standstill.on_idle([&](bool at_end) { asked.push_back(at_end ? 30 : 3); });
  EXPECT_FALSE(world.standstill.ask_outside(false));
  EXPECT_TRUE(world.standstill.ask_outside(true));
  EXPECT_THAT(asked, ElementsAre(1, 2, 3, 10, 20));
}

TEST(StandstillTest, TheOutsideIsNotAskedOnceTheWorldIsTakenDown) {
  Parts world({.n_ranks = 1});
  int n_asked = 0;
  world.standstill.on_idle([&](bool) { ++n_asked; });
  world.ends.kill_all(RankOutcome::kKilled, "down");
  EXPECT_FALSE(world.standstill.ask_outside(false));
  EXPECT_EQ(n_asked, 0);
}

TEST(StandstillTest, TheVerdictNamesThoseThatAreBlockedAndThenTheyUnwind) {
  Parts world({.n_ranks = 3});
  world.finish(1, RankOutcome::kFinished);
  world.block(0, "recv");
  world.block(2, "all_reduce");
  EXPECT_TRUE(world.standstill.resolve()) << "they can run again, to die";
  EXPECT_EQ(world.ends.deaths().outcome_of(Rank{0}), RankOutcome::kStuck);
  EXPECT_EQ(world.rank(2).state, RankState::kReady);
  const std::optional<StuckVerdict> verdict = world.standstill.take_verdict();
  ASSERT_TRUE(verdict.has_value());
  EXPECT_FALSE(verdict->livelock);
  ASSERT_EQ(verdict->waiting.size(), 2U);
  EXPECT_EQ(verdict->waiting[0].rank, Rank{0});
  EXPECT_EQ(verdict->waiting[0].reason.what, "recv");
  EXPECT_EQ(verdict->waiting[1].rank, Rank{2});
  EXPECT_EQ(verdict->waiting[1].reason.what, "all_reduce");
}

TEST(StandstillTest, AListenerThatHelpsAvertsTheVerdictAndLaterOnesAreNotCalled) {
  Parts world({.n_ranks = 1});
  std::vector<int> called;
  world.standstill.on_stuck([&](const StuckVerdict&) { called.push_back(1); });
  world.standstill.on_stuck([&](const StuckVerdict&) {
    called.push_back(2);
    world.turns.make_ready(world.rank(0), {});
  });
  world.standstill.on_stuck([&](const StuckVerdict&) { called.push_back(3); });
  EXPECT_TRUE(world.standstill.resolve());
  EXPECT_THAT(called, ElementsAre(1, 2));
  EXPECT_EQ(world.standstill.take_verdict(), std::nullopt);
  EXPECT_FALSE(world.ends.deaths().is_tearing_down());
}

TEST(StandstillTest, AWatchdogIsWaitedForBeforeRanksAreTakenDown) {
  Parts world({.n_ranks = 1});
  world.timeline.at(
      VirtualTime{5}, [] {}, true);
  EXPECT_TRUE(world.standstill.resolve());
  EXPECT_EQ(world.timeline.now(), VirtualTime{5});
  EXPECT_FALSE(world.ends.deaths().is_tearing_down());
  EXPECT_TRUE(world.standstill.take_verdict().has_value()) << "at time 0";
}

TEST(StandstillTest, AVerdictIsReportedOnceHoweverOftenTheWorldStandsStill) {
  Parts world({.n_ranks = 1});
  int n_called = 0;
  world.standstill.on_stuck([&](const StuckVerdict&) { ++n_called; });
  world.timeline.at(
      VirtualTime{5}, [] {}, true);
  EXPECT_TRUE(world.standstill.resolve());
  EXPECT_TRUE(world.standstill.resolve());
  EXPECT_EQ(n_called, 1);
}

TEST(StandstillTest, NoAnswerAvertsALivelock) {
  Parts world({.n_ranks = 2});
  std::vector<bool> livelocks;
  world.standstill.on_stuck([&](const StuckVerdict& verdict) {
    livelocks.push_back(verdict.livelock);
    world.turns.make_ready(world.rank(0), {});
  });
  world.standstill.end_as_livelock();
  EXPECT_THAT(livelocks, ElementsAre(true));
  EXPECT_TRUE(world.standstill.take_verdict()->livelock);
  EXPECT_EQ(world.ends.deaths().why_of(Rank{1}), EndReason::kLivelock);
  EXPECT_TRUE(world.rank(0).kill_pending);
  EXPECT_TRUE(world.rank(1).kill_pending);
}

TEST(StandstillTest, ALivelockAfterAVerdictIsNotReportedAnew) {
  Parts world({.n_ranks = 1});
  int n_called = 0;
  world.standstill.on_stuck([&](const StuckVerdict&) { ++n_called; });
  world.timeline.at(
      VirtualTime{5}, [] {}, true);
  EXPECT_TRUE(world.standstill.resolve());
  world.standstill.end_as_livelock();
  EXPECT_EQ(n_called, 1);
  EXPECT_TRUE(world.standstill.take_verdict()->livelock) << "but it is the last word";
}

TEST(StandstillTest, AStrategyThatWatchesLearnsThatNothingCouldHappen) {
  Scripted strategy(true);
  Parts world({.n_ranks = 1}, strategy);
  world.standstill.on_idle([](bool) {});
  EXPECT_FALSE(world.standstill.ask_outside(false));
  EXPECT_EQ(strategy.calls, (Calls{"start 1", "quiet"}));
  world.standstill.on_stuck([&](const StuckVerdict&) { strategy.calls.emplace_back("asked"); });
  EXPECT_TRUE(world.standstill.resolve());
  ASSERT_GE(strategy.calls.size(), 4U);
  EXPECT_EQ(strategy.calls[2], "quiet");
  EXPECT_EQ(strategy.calls[3], "asked");
}

TEST(StandstillTest, ListenersServeOneRun) {
  Parts world({.n_ranks = 1});
  std::vector<int> called;
  world.standstill.on_idle([&](bool) { called.push_back(1); });
  world.standstill.on_stuck([&](const StuckVerdict&) { called.push_back(2); });
  world.standstill.drop_listeners();
  EXPECT_FALSE(world.standstill.ask_outside(false));
  world.standstill.resolve();
  EXPECT_THAT(called, IsEmpty());
}

}  // namespace
}  // namespace lockstep::sim
