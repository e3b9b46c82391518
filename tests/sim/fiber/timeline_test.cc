#include "lockstep/sim/fiber/detail/timeline.h"

#include <gmock/gmock.h>

#include <gtest/gtest.h>

#include "lockstep/base/check.h"

#include "tests/sim/fiber/parts.h"
#include "tests/sim/support/scripted_strategy.h"

namespace lockstep::sim {
namespace {

using testing::Calls;
using ::testing::HasSubstr;
using testing::Parts;
using testing::Scripted;
using ::testing::ThrowsMessage;

TEST(TimelineTest, TimePassesToTheNextMomentAndWakesAllOfIt) {
  Parts world({.n_ranks = 3});
  world.timeline.sleep_until(world.rank(0), VirtualTime{9});
  world.timeline.sleep_until(world.rank(1), VirtualTime{5});
  world.timeline.sleep_until(world.rank(2), VirtualTime{5});
  EXPECT_TRUE(world.timeline.advance(false));
  EXPECT_EQ(world.timeline.now(), VirtualTime{5});
  EXPECT_EQ(world.rank(0).state, RankState::kSleeping);
  EXPECT_EQ(world.rank(1).state, RankState::kReady);
  EXPECT_EQ(world.rank(2).state, RankState::kReady);
  EXPECT_TRUE(world.timeline.advance(false));
  EXPECT_EQ(world.timeline.now(), VirtualTime{9});
  EXPECT_FALSE(world.timeline.advance(false)) << "no timer is left";
  EXPECT_EQ(world.timeline.now(), VirtualTime{9});
}

TEST(TimelineTest, ASleepThatSomethingElseEndedDoesNotEndTheNextOne) {
  Parts world({.n_ranks = 1});
  world.timeline.sleep_until(world.rank(0), VirtualTime{5});
  world.turns.make_ready(world.rank(0), {});
  EXPECT_NE(world.turns.choose(), nullptr);
  world.timeline.sleep_until(world.rank(0), VirtualTime{8});
  EXPECT_TRUE(world.timeline.advance(false));
  EXPECT_EQ(world.timeline.now(), VirtualTime{8});
}

TEST(TimelineTest, TwoSleepsToTheSameMomentAreOneAwakening) {
  Parts world({.n_ranks = 1});
  world.timeline.sleep_until(world.rank(0), VirtualTime{5});
  world.turns.make_ready(world.rank(0), {});
  EXPECT_NE(world.turns.choose(), nullptr);
  world.timeline.sleep_until(world.rank(0), VirtualTime{5});
  EXPECT_TRUE(world.timeline.advance(false));
  EXPECT_EQ(world.turns.actions().n_enabled(), 1U);
}

TEST(TimelineTest, AMomentWakesOnlyThoseWhoStillSleep) {
  Parts world({.n_ranks = 2});
  world.timeline.sleep_until(world.rank(0), VirtualTime{5});
  world.timeline.sleep_until(world.rank(1), VirtualTime{5});
  world.block(1, "recv");
  EXPECT_TRUE(world.timeline.advance(false));
  EXPECT_EQ(world.rank(0).state, RankState::kReady);
  EXPECT_EQ(world.rank(1).state, RankState::kBlocked);
}

TEST(TimelineTest, AStrategyThatWatchesLearnsThatTimePassed) {
  Scripted strategy(true);
  Parts world({.n_ranks = 1}, strategy);
  world.timeline.sleep_until(world.rank(0), VirtualTime{5});
  EXPECT_TRUE(world.timeline.advance(false));
  EXPECT_EQ(strategy.calls, (Calls{"start 1", "quiet", "enabled 0"}));
}

TEST(TimelineTest, ATimerOfARankThatNoLongerSleepsDoesNotMoveTime) {
  Parts world({.n_ranks = 1});
  world.timeline.sleep_until(world.rank(0), VirtualTime{5});
  world.block(0, "recv");
  EXPECT_FALSE(world.timeline.advance(false));
  EXPECT_EQ(world.timeline.now(), VirtualTime{0});
  EXPECT_EQ(world.rank(0).state, RankState::kBlocked);
}

TEST(TimelineTest, DaemonsAloneLetTimePassOnlyWhenAsked) {
  Parts world({.n_ranks = 1});
  world.timeline.at(
      VirtualTime{5}, [] {}, true);
  EXPECT_FALSE(world.timeline.advance(false));
  EXPECT_EQ(world.timeline.now(), VirtualTime{0});
  EXPECT_TRUE(world.timeline.advance(true));
  EXPECT_EQ(world.timeline.now(), VirtualTime{5});
}

TEST(TimelineTest, AHandlerIsCalledByWhoTakesItsActionAndNotBefore) {
  Parts world({.n_ranks = 1});
  int n_called = 0;
  world.timeline.at(
      VirtualTime{3}, [&] { ++n_called; }, false);
  EXPECT_FALSE(world.turns.actions().any());
  EXPECT_TRUE(world.timeline.advance(false));
  EXPECT_EQ(world.turns.choose(), nullptr);
  EXPECT_EQ(n_called, 0);
  world.timeline.take_handler(world.turns.actions().take_out().timer)();
  EXPECT_EQ(n_called, 1);
}

TEST(TimelineTest, ATimerInThePastIsRefusedWithBothTimes) {
  Parts world({.n_ranks = 1});
  world.timeline.at(
      VirtualTime{5}, [] {}, false);
  world.timeline.advance(false);
  world.timeline.at(
      VirtualTime{5}, [] {}, false);
  EXPECT_THAT(
      [&] {
        world.timeline.at(
            VirtualTime{4}, [] {}, false);
      },
      ThrowsMessage<ContractViolation>(HasSubstr("a timer at 4 ns lies in the past: it is 5 ns")));
}

}  // namespace
}  // namespace lockstep::sim
