#include "lockstep/sim/fiber/detail/ends.h"

#include <gmock/gmock.h>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/check.h"

#include "tests/sim/fiber/parts.h"
#include "tests/sim/support/scripted_strategy.h"

namespace lockstep::sim {
namespace {

using testing::Calls;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::Parts;
using testing::Scripted;

WorldResult report_of(Parts& world) {
  WorldResult result;
  world.ends.report(result);
  return result;
}

TEST(EndsTest, TheFirstFailureIsTheFirstInTimeAndThenInRank) {
  Parts world({.n_ranks = 4, .keep_going = true});
  world.finish(3, RankOutcome::kThrew, 7);
  world.finish(2, RankOutcome::kThrew, 5);
  world.finish(1, RankOutcome::kThrew, 5);
  world.finish(0, RankOutcome::kFinished, 1);
  EXPECT_TRUE(world.ends.all_ended());
  EXPECT_EQ(report_of(world).first_failure, 1);
}

TEST(EndsTest, AFailureKillsTheOthersUnlessTheyAreToContinue) {
  for (const bool keep_going : {false, true}) {
    Parts world({.n_ranks = 3, .keep_going = keep_going});
    world.finish(2, RankOutcome::kFinished);
    world.finish(1, RankOutcome::kThrew);
    EXPECT_EQ(world.rank(0).kill_pending, !keep_going);
    EXPECT_EQ(world.rank(0).state, keep_going ? RankState::kBlocked : RankState::kReady);
    EXPECT_EQ(world.rank(2).state, RankState::kEnded) << "one that has ended stays so";
    EXPECT_EQ(world.ends.deaths().is_tearing_down(), !keep_going);
    if (keep_going) continue;
    EXPECT_EQ(world.ends.deaths().reason_of(Rank{0}), "rank 1 failed: canary");
    EXPECT_EQ(world.ends.deaths().why_of(Rank{0}), EndReason::kOtherFailed);
  }
}

TEST(EndsTest, ARankIsKilledOnceAndItsFirstReasonStays) {
  Parts world({.n_ranks = 2});
  world.ends.kill(Rank{1}, "out of memory");
  world.ends.kill(Rank{1}, "again");
  EXPECT_TRUE(world.rank(1).fenced);
  EXPECT_TRUE(world.rank(1).kill_pending);
  EXPECT_EQ(world.rank(1).state, RankState::kReady) << "it wakes up to die";
  EXPECT_EQ(world.ends.deaths().reason_of(Rank{1}), "out of memory");
  EXPECT_FALSE(world.rank(0).kill_pending);
}

TEST(EndsTest, ARankThatHasEndedCannotBeKilledOrInterrupted) {
  Parts world({.n_ranks = 1});
  world.finish(0, RankOutcome::kFinished);
  world.ends.kill(Rank{0}, "late");
  world.ends.interrupt(Rank{0}, [](RankHandle&) {});
  EXPECT_FALSE(world.rank(0).kill_pending);
  EXPECT_FALSE(world.rank(0).interrupt_pending);
}

TEST(EndsTest, ARankThatIsToDieIsNotInterruptedAnyMore) {
  Parts world({.n_ranks = 1});
  world.ends.kill(Rank{0}, "out of memory");
  bool ran = false;
  world.ends.interrupt(Rank{0}, [&](RankHandle&) { ran = true; });
  world.ends.run_interrupts(world.turns.slot(Rank{0}));
  EXPECT_FALSE(ran);
}

TEST(EndsTest, ATeardownLeavesThoseAloneThatHaveEnded) {
  Parts world({.n_ranks = 2});
  world.finish(1, RankOutcome::kFinished);
  world.ends.kill_all(RankOutcome::kStuck, "stuck");
  EXPECT_TRUE(world.rank(0).kill_pending);
  EXPECT_FALSE(world.rank(1).kill_pending);
}

TEST(EndsTest, AStrategyThatWatchesLearnsWhatAKillTouches) {
  Scripted strategy(true);
  Parts world({.n_ranks = 2}, strategy);
  world.ends.kill(Rank{1}, "by name");
  world.ends.kill_all(RankOutcome::kStuck, "stuck");
  EXPECT_EQ(strategy.calls,
            (Calls{"start 2",
                   "touch " + std::to_string(rank_object(Rank{1})),
                   "enabled 1",
                   "touch " + std::to_string(kEverything),
                   "enabled 0"}));
}

TEST(EndsTest, OnlyTheFirstTeardownCounts) {
  Parts world({.n_ranks = 1});
  world.ends.kill_all(RankOutcome::kStuck, "stuck");
  world.ends.kill_all(RankOutcome::kKilled, "again", EndReason::kOtherFailed);
  EXPECT_EQ(world.ends.deaths().outcome_of(Rank{0}), RankOutcome::kStuck);
  EXPECT_EQ(world.ends.deaths().reason_of(Rank{0}), "stuck");
}

TEST(EndsTest, AStuckRankSaysWhatItWaitsForUnlessTheWorldRanInCircles) {
  for (const bool livelock : {false, true}) {
    Parts world({.n_ranks = 1});
    world.block(0, "recv");
    if (livelock) {
      world.ends.kill_all_as_livelock();
    } else {
      world.ends.kill_all(RankOutcome::kStuck, "stuck");
    }
    world.finish(0, RankOutcome::kStuck);
    EXPECT_EQ(world.ends.of(Rank{0}).detail, livelock ? "" : "stuck in recv");
    EXPECT_EQ(report_of(world).livelock, livelock);
  }
}

TEST(EndsTest, AnEndIsProgress) {
  Parts world({.n_ranks = 1});
  while (world.progress.may_wait_for_daemons()) world.progress.note_daemons();
  EXPECT_TRUE(world.progress.spend_point(1));
  world.finish(0, RankOutcome::kFinished);
  EXPECT_TRUE(world.progress.spend_point(1)) << "the budget begins anew";
  EXPECT_TRUE(world.progress.may_wait_for_daemons());
}

TEST(EndsTest, AnotherWorldKnowsNothingOfTheLast) {
  const WorldOptions options{.n_ranks = 2, .keep_going = true};
  Parts world(options);
  bool ran = false;
  world.ends.interrupt(Rank{1}, [&](RankHandle&) { ran = true; });
  world.finish(0, RankOutcome::kThrew);
  world.ends.kill_all_as_livelock();
  world.turns.start(world.fifo, options.n_ranks);
  world.ends.start(options);
  EXPECT_FALSE(world.ends.all_ended());
  EXPECT_FALSE(world.ends.deaths().is_tearing_down());
  world.ends.run_interrupts(world.turns.slot(Rank{1}));
  EXPECT_FALSE(ran);
  const WorldResult result = report_of(world);
  EXPECT_EQ(result.first_failure, std::nullopt);
  EXPECT_FALSE(result.livelock);
}

TEST(EndsTest, TheEndOfARankThatStillLivesIsNotAskedFor) {
  Parts world({.n_ranks = 2});
  EXPECT_THROW(world.ends.of(Rank{1}), ContractViolation);
}

TEST(EndsTest, EveryExceptionStopsAtTheRank) {
  Parts world({.n_ranks = 1});
  const auto end_of = [&](const World::Program& program) {
    return world.ends.run(program, world.turns.slot(Rank{0}));
  };
  EXPECT_EQ(end_of([](RankHandle&) {}).outcome, RankOutcome::kFinished);
  const RankEnd failed = end_of([](RankHandle&) { throw std::runtime_error("canary"); });
  EXPECT_EQ(failed.outcome, RankOutcome::kThrew);
  EXPECT_EQ(failed.detail, "canary");
  EXPECT_THROW(std::rethrow_exception(failed.exception), std::runtime_error);
  EXPECT_EQ(end_of([](RankHandle&) { throw std::bad_alloc(); }).detail, "out of memory");
  const RankEnd foreign = end_of([](RankHandle&) { throw 42; });
  EXPECT_EQ(foreign.detail, "an exception that is not a std::exception");
  EXPECT_THROW(std::rethrow_exception(foreign.exception), int);
}

TEST(EndsTest, AKilledRankEndsAsTheOneWhoKilledItSays) {
  Parts world({.n_ranks = 2});
  const World::Program dies = [](RankHandle&) { throw RankKilled("taken", EndReason::kLivelock); };
  world.ends.kill(Rank{1}, "by name");
  world.ends.kill_all_as_livelock();
  world.rank(0).interrupt_pending = world.rank(1).interrupt_pending =
      false;  // It throws by itself.
  const RankEnd end = world.ends.run(dies, world.turns.slot(Rank{0}));
  EXPECT_EQ(end.outcome, RankOutcome::kStuck);
  EXPECT_EQ(end.why, EndReason::kLivelock);
  EXPECT_EQ(end.detail, "taken");
  EXPECT_EQ(world.ends.run(dies, world.turns.slot(Rank{1})).outcome, RankOutcome::kKilled);
  EXPECT_EQ(world.ends.abandoned(world.turns.slot(Rank{1})).detail,
            "by name (it kept catching RankKilled)");
}

TEST(EndsTest, InterruptsRunOnceInTheirOrder) {
  Parts world({.n_ranks = 1});
  std::vector<int> ran;
  world.ends.interrupt(Rank{0}, [&](RankHandle&) { ran.push_back(1); });
  world.ends.interrupt(Rank{0}, [&](RankHandle&) { ran.push_back(2); });
  EXPECT_TRUE(world.rank(0).interrupt_pending);
  world.ends.run_interrupts(world.turns.slot(Rank{0}));
  world.ends.run_interrupts(world.turns.slot(Rank{0}));
  EXPECT_THAT(ran, ElementsAre(1, 2));
  EXPECT_FALSE(world.rank(0).interrupt_pending);
}

TEST(EndsTest, AnInterruptThatThrowsIsReportedAsADeath) {
  Parts world({.n_ranks = 1});
  std::vector<Rank> dying;
  world.ends.on_dying([&](Rank rank) { dying.push_back(rank); });
  world.ends.run_interrupts(world.turns.slot(Rank{0}));
  EXPECT_THAT(dying, IsEmpty());
  world.ends.interrupt(Rank{0}, [](RankHandle&) { throw std::runtime_error("fault"); });
  EXPECT_THROW(world.ends.run_interrupts(world.turns.slot(Rank{0})), std::runtime_error);
  EXPECT_THAT(dying, ElementsAre(Rank{0}));
}

TEST(EndsTest, ListenersAreCalledOnceTheEndCanBeAskedForAndServeOneRun) {
  Parts world({.n_ranks = 2});
  std::vector<std::string> seen;
  world.ends.on_end([&](Rank rank) { seen.push_back("a " + world.ends.of(rank).detail); });
  world.ends.on_end([&](Rank) { seen.emplace_back("b"); });
  world.finish(1, RankOutcome::kThrew);
  EXPECT_THAT(seen, ElementsAre("a canary", "b"));
  world.ends.drop_listeners();
  world.finish(0, RankOutcome::kKilled);
  EXPECT_EQ(seen.size(), 2U);
}

}  // namespace
}  // namespace lockstep::sim
