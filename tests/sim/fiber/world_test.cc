#include "lockstep/sim/fiber/world.h"

#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/check.h"

#include "tests/sim/support/fifo_strategy.h"

namespace lockstep::sim {
namespace {

using testing::FifoStrategy;
using testing::SeededStrategy;

// Which rank ran at which of its points.
std::string interleaving(Strategy& strategy, std::int32_t n_ranks, int n_points) {
  World world;
  std::string log;
  world.run({.n_ranks = n_ranks}, strategy, [&](RankHandle& rank) {
    for (int i = 0; i < n_points; ++i) {
      log += static_cast<char>('0' + to_int(rank.rank()));
      rank.point({});
    }
  });
  return log;
}

TEST(WorldTest, RunsEveryRankToItsEnd) {
  World world;
  FifoStrategy strategy;
  std::vector<int> seen(5);
  const WorldResult result =
      world.run({.n_ranks = 5}, strategy, [&](RankHandle& rank) { ++seen[to_index(rank.rank())]; });
  EXPECT_EQ(seen, std::vector<int>(5, 1));
  for (const RankEnd& end : result.ends) EXPECT_EQ(end.outcome, RankOutcome::kFinished);
  EXPECT_FALSE(result.stuck.has_value());
  EXPECT_FALSE(result.first_failure.has_value());
}

TEST(WorldTest, InterleavesAsTheStrategySays) {
  FifoStrategy strategy;
  EXPECT_EQ(interleaving(strategy, 3, 2), "012012");
}

TEST(WorldTest, SameSeedGivesTheSameInterleaving) {
  SeededStrategy first(7);
  SeededStrategy second(7);
  EXPECT_EQ(interleaving(first, 5, 20), interleaving(second, 5, 20));
}

TEST(WorldTest, AnotherSeedGivesAnotherInterleaving) {
  SeededStrategy first(7);
  SeededStrategy second(8);
  EXPECT_NE(interleaving(first, 5, 20), interleaving(second, 5, 20));
}

TEST(WorldTest, AFailingRankIsReportedAndTheOthersUnwind) {
  World world;
  FifoStrategy strategy;
  int n_destroyed = 0;

  struct Guard {
    int* n;

    ~Guard() { ++*n; }
  };

  const WorldResult result = world.run({.n_ranks = 3}, strategy, [&](RankHandle& rank) {
    const Guard guard{&n_destroyed};
    rank.point({});
    if (rank.rank() == Rank{1}) throw std::runtime_error("canary");
    for (;;) rank.point({});
  });
  EXPECT_EQ(n_destroyed, 3);
  ASSERT_EQ(result.first_failure, 1);
  EXPECT_EQ(result.ends[1].outcome, RankOutcome::kThrew);
  EXPECT_EQ(result.ends[1].detail, "canary");
  EXPECT_THROW(std::rethrow_exception(result.ends[1].exception), std::runtime_error);
  EXPECT_EQ(result.ends[0].outcome, RankOutcome::kKilled);
  EXPECT_EQ(result.ends[0].detail, "rank 1 failed: canary");
  EXPECT_EQ(result.ends[0].why, EndReason::kOtherFailed);
  EXPECT_EQ(result.ends[1].why, EndReason::kNone);
}

TEST(WorldTest, ExceptionsOfAnyTypeStopAtTheRank) {
  World world;
  FifoStrategy strategy;
  const WorldResult result = world.run({.n_ranks = 1}, strategy, [](RankHandle&) { throw 42; });
  ASSERT_EQ(result.first_failure, 0);
  EXPECT_THROW(std::rethrow_exception(result.ends[0].exception), int);
}

TEST(WorldTest, AStrategyThatWatchesLearnsWhomAWakeTouches) {
  class Watching final : public FifoStrategy {
   public:
    bool watches() const override { return true; }

    void on_touch(std::uint64_t object) override { touched.push_back(object); }

    std::vector<std::uint64_t> touched;
  };

  World world;
  Watching strategy;
  world.run({.n_ranks = 2}, strategy, [&](RankHandle& rank) {
    if (rank.rank() == Rank{0}) {
      rank.block({.what = "recv"});
    } else {
      world.wake(Rank{0});
    }
  });
  EXPECT_EQ(strategy.touched, std::vector{rank_object(Rank{0})});
}

TEST(WorldTest, ListenersServeOneRun) {
  World world;
  FifoStrategy strategy;
  int n_called = 0;
  world.on_rank_end([&](Rank) { ++n_called; });
  world.on_rank_dying([&](Rank) { ++n_called; });
  world.on_idle([&](bool) { ++n_called; });
  world.on_stuck([&](const StuckVerdict&) { ++n_called; });
  const auto blocks = [](RankHandle& rank) { rank.block({.what = "recv"}); };
  world.run({.n_ranks = 1}, strategy, blocks);
  EXPECT_EQ(n_called, 5) << "idle twice, stuck, dying, ended";
  world.run({.n_ranks = 1}, strategy, blocks);
  EXPECT_EQ(n_called, 5);
}

TEST(WorldTest, ARankThatIsKilledAfterItsLastPointDidNotFinish) {
  World world;
  FifoStrategy strategy;
  const WorldResult result = world.run(
      {.n_ranks = 1}, strategy, [&](RankHandle& rank) { world.kill(rank.rank(), "too late"); });
  EXPECT_EQ(result.ends[0].outcome, RankOutcome::kKilled);
  EXPECT_EQ(result.ends[0].detail, "too late");
}

TEST(WorldTest, TheOthersContinueWhenAsked) {
  World world;
  FifoStrategy strategy;
  const WorldResult result =
      world.run({.n_ranks = 2, .keep_going = true}, strategy, [](RankHandle& rank) {
        if (rank.rank() == Rank{0}) throw std::runtime_error("canary");
        for (int i = 0; i < 10; ++i) rank.point({});
      });
  EXPECT_EQ(result.ends[1].outcome, RankOutcome::kFinished);
}

// First by virtual time, then by rank, whatever the order in which they threw.
TEST(WorldTest, TheFirstFailureIsTheFirstInTimeAndThenInRank) {
  World world;
  FifoStrategy strategy;
  const WorldResult result =
      world.run({.n_ranks = 3, .keep_going = true}, strategy, [](RankHandle& rank) {
        if (rank.rank() == Rank{0}) rank.sleep({100});
        if (rank.rank() == Rank{1}) rank.point({});
        throw std::runtime_error("all throw");
      });
  EXPECT_EQ(result.first_failure, 1);
}

// User code that catches std::exception cannot survive, and code that catches everything dies at
// the next point.
TEST(WorldTest, AKillIsSticky) {
  World world;
  FifoStrategy strategy;
  int n_survived = 0;
  int n_swallowed = 0;
  const WorldResult result = world.run({.n_ranks = 2}, strategy, [&](RankHandle& rank) {
    if (rank.rank() == Rank{1}) return rank.world().kill(Rank{0}, "SIGKILL");
    for (;;) {
      try {
        rank.point({});
        rank.point({});
        ++n_survived;
      } catch (const std::exception&) {
        ++n_survived;
      } catch (const RankKilled&) {
        if (++n_swallowed == 3) throw;
      }
    }
  });
  EXPECT_EQ(n_swallowed, 3);
  EXPECT_EQ(n_survived, 0);
  EXPECT_EQ(result.ends[0].outcome, RankOutcome::kKilled);
  EXPECT_EQ(result.ends[0].detail, "SIGKILL");
  EXPECT_EQ(result.ends[0].why, EndReason::kNone);
  EXPECT_FALSE(result.first_failure.has_value());
}

TEST(WorldTest, ARankThatNeverDiesIsAbandoned) {
  World world;
  FifoStrategy strategy;
  const WorldResult result = world.run({.n_ranks = 2}, strategy, [&](RankHandle& rank) {
    if (rank.rank() == Rank{1}) return rank.world().kill(Rank{0}, "SIGKILL");
    for (;;) {
      try {
        rank.point({});
      } catch (const RankKilled&) {
        continue;
      }
    }
  });
  EXPECT_EQ(result.ends[0].outcome, RankOutcome::kKilled);
  EXPECT_EQ(world.run({.n_ranks = 3}, strategy, [](RankHandle&) {}).ends.size(), 3U);
}

TEST(WorldTest, AKilledRankWritesNoFiles) {
  World world;
  FifoStrategy strategy;
  bool published = true;
  world.run({.n_ranks = 2}, strategy, [&](RankHandle& rank) {
    if (rank.rank() == Rank{1}) {
      rank.point({});
      published = rank.files().read("ckpt").ok();
      return;
    }
    struct LastWords {
      RankHandle* rank;
      ~LastWords() { (void)rank->files().publish("ckpt", "torn"); }
    };
    const LastWords words{&rank};
    rank.world().kill(Rank{0}, "SIGKILL");
    rank.point({});
  });
  EXPECT_FALSE(published);
}

TEST(WorldTest, FilesAreSharedByTheRanks) {
  World world;
  FifoStrategy strategy;
  std::string text;
  world.run({.n_ranks = 2}, strategy, [&](RankHandle& rank) {
    if (rank.rank() == Rank{0}) {
      EXPECT_TRUE(rank.files().publish("a", "hello").ok());
    }
    rank.sleep({1});
    if (rank.rank() == Rank{1}) text = rank.files().read("a").value();
  });
  EXPECT_EQ(text, "hello");
}

TEST(WorldTest, ABlockedRankContinuesWhenWoken) {
  World world;
  FifoStrategy strategy;
  std::string log;
  const WorldResult result = world.run({.n_ranks = 2}, strategy, [&](RankHandle& rank) {
    if (rank.rank() == Rank{0}) {
      log += "a";
      rank.block({.what = "test"});
      log += "c";
    } else {
      log += "b";
      EXPECT_TRUE(rank.world().is_blocked(Rank{0}));
      rank.world().wake(Rank{0});
    }
  });
  EXPECT_EQ(log, "abc");
  EXPECT_FALSE(result.stuck.has_value());
}

TEST(WorldTest, ARankThatIsNotBlockedIsNotWoken) {
  World world;
  FifoStrategy strategy;
  world.run({.n_ranks = 2}, strategy, [&](RankHandle& rank) {
    if (rank.rank() == Rank{0}) return rank.point({});
    EXPECT_FALSE(world.wake_blocked(Rank{0}));
    EXPECT_THROW(world.wake(Rank{0}), ContractViolation);
  });
  world.run({.n_ranks = 2}, strategy, [&](RankHandle& rank) {
    if (rank.rank() == Rank{0}) {
      rank.block({.what = "test"});
    } else {
      EXPECT_TRUE(world.wake_blocked(Rank{0}));
      EXPECT_FALSE(world.wake_blocked(Rank{0}));
    }
  });
}

// What it waited in was on its stack, which is unwound before the end is reported.
TEST(WorldTest, AStuckRanksEndSaysWhatItWaitedIn) {
  World world;
  FifoStrategy strategy;
  const WorldResult result = world.run({.n_ranks = 2}, strategy, [](RankHandle& rank) {
    const bool first = rank.rank() == Rank{0};
    rank.block({.what = first ? "recv" : "all_reduce",
                .group = 4,
                .seq = 9,
                .site = {"train.py", 12, ""}});
  });
  EXPECT_EQ(result.ends[0].detail, "stuck in recv #9 of group 4 at train.py:12");
  EXPECT_EQ(result.ends[1].detail, "stuck in all_reduce #9 of group 4 at train.py:12");
}

TEST(WorldTest, NoRunnableRankIsAVerdictWithoutATimeout) {
  World world;
  FifoStrategy strategy;
  const WorldResult result = world.run({.n_ranks = 3}, strategy, [](RankHandle& rank) {
    if (rank.rank() == Rank{1}) return;
    rank.block({.what = "recv", .group = 4, .seq = 9, .site = {"train.py", 12, ""}});
  });
  ASSERT_TRUE(result.stuck.has_value());
  ASSERT_EQ(result.stuck->waiting.size(), 2U);
  EXPECT_EQ(result.stuck->waiting[0].rank, Rank{0});
  EXPECT_EQ(result.stuck->waiting[1].rank, Rank{2});
  EXPECT_EQ(result.stuck->waiting[1].reason.seq, 9);
  EXPECT_EQ(result.ends[0].outcome, RankOutcome::kStuck);
  EXPECT_EQ(result.ends[0].detail, "stuck in recv #9 of group 4 at train.py:12");
  EXPECT_EQ(result.ends[0].why, EndReason::kNone);
  EXPECT_EQ(result.ends[1].outcome, RankOutcome::kFinished);
}

TEST(WorldTest, AListenerMayHelpAStuckWorld) {
  World world;
  FifoStrategy strategy;
  world.on_stuck([&](const StuckVerdict& verdict) { world.wake(verdict.waiting[0].rank); });
  const WorldResult result =
      world.run({.n_ranks = 2}, strategy, [](RankHandle& rank) { rank.block({.what = "test"}); });
  EXPECT_FALSE(result.stuck.has_value());
  EXPECT_EQ(result.ends[1].outcome, RankOutcome::kFinished);
}

TEST(WorldTest, AWatchdogMayHelpAfterTheVerdict) {
  World world;
  FifoStrategy strategy;
  const WorldResult result = world.run({.n_ranks = 1}, strategy, [&](RankHandle& rank) {
    world.at(
        {500}, [&world] { world.wake(Rank{0}); }, /*daemon=*/true);
    rank.block({.what = "test"});
    EXPECT_EQ(rank.now().ns, 500);
  });
  ASSERT_TRUE(result.stuck.has_value());
  EXPECT_EQ(result.stuck->time.ns, 0);
  EXPECT_EQ(result.ends[0].outcome, RankOutcome::kFinished);
}

TEST(WorldTest, AHeartbeatDoesNotKeepAStuckWorldAlive) {
  World world;
  FifoStrategy strategy;
  std::function<void()> beat = [&] {
    world.at(
        {world.now().ns + 10}, [&] { beat(); }, /*daemon=*/true);
  };
  const WorldResult result = world.run({.n_ranks = 1}, strategy, [&](RankHandle& rank) {
    beat();
    rank.block({.what = "test"});
  });
  EXPECT_TRUE(result.stuck.has_value());
  EXPECT_EQ(result.ends[0].outcome, RankOutcome::kStuck);
}

TEST(WorldTest, AWorldInsideARankIsRefused) {
  World outer;
  World inner;
  FifoStrategy strategy;
  FifoStrategy other;
  outer.run({.n_ranks = 1}, strategy, [&](RankHandle&) {
    EXPECT_THROW((void)inner.run({.n_ranks = 1}, other, [](RankHandle&) {}), ContractViolation);
    EXPECT_THROW((void)outer.run({.n_ranks = 1}, other, [](RankHandle&) {}), ContractViolation);
  });
}

TEST(WorldTest, PointsWithoutAnEventAreALivelock) {
  World world;
  FifoStrategy strategy;
  const WorldResult result =
      world.run({.n_ranks = 2, .livelock_points = 10'000}, strategy, [](RankHandle& rank) {
        for (;;) rank.point({PointKind::kWait, 0});
      });
  EXPECT_TRUE(result.livelock);
  EXPECT_EQ(result.ends[0].outcome, RankOutcome::kStuck);
  EXPECT_EQ(result.ends[0].why, EndReason::kLivelock);
}

TEST(WorldTest, AStrategyThatPicksWhatIsNotEnabledEndsTheRun) {
  class Wrong final : public Strategy {
   public:
    void start(std::int32_t) override {}

    void on_enabled(const Action&) override {}

    void on_disabled(ActionId) override {}

    ActionId pick() override { return resume_id(Rank{n_picks_++ == 0 ? 1 : 77}); }

    std::string describe() const override { return "wrong"; }

   private:
    int n_picks_ = 0;
  };

  World world;
  Wrong wrong;
  std::string reason;
  const auto waits = [&](RankHandle& rank) {
    try {
      rank.point({});
    } catch (const RankKilled& killed) {
      reason = killed.reason();
      throw;
    }
  };
  EXPECT_THROW((void)world.run({.n_ranks = 2}, wrong, waits), ContractViolation);
  EXPECT_EQ(reason, "the strategy broke its contract");
  FifoStrategy strategy;
  EXPECT_EQ(world.run({.n_ranks = 2}, strategy, [](RankHandle&) {}).ends.size(), 2U);
}

TEST(WorldTest, ActionsAreChosenLikeRanks) {
  struct Handler final : ActionHandler {
    void on_action(const Action& action) override { picked.push_back(action.footprint); }

    std::vector<std::uint64_t> picked;
  };

  World world;
  FifoStrategy strategy;
  Handler handler;
  world.run({.n_ranks = 1}, strategy, [&](RankHandle& rank) {
    for (std::uint64_t i = 0; i < 100; ++i) {
      world.enable({.id = action_id(ActionKind::kTransfer, i),
                    .kind = ActionKind::kTransfer,
                    .footprint = i},
                   handler);
    }
    world.disable(action_id(ActionKind::kTransfer, 3));
    rank.point({});
  });
  ASSERT_EQ(handler.picked.size(), 99U);
  EXPECT_EQ(handler.picked[2], 2U);
  EXPECT_EQ(handler.picked[3], 4U);
}

TEST(WorldTest, TenThousandRanksRunToTheirEnd) {
  World world;
  SeededStrategy strategy(3);
  std::int64_t n_points = 0;
  const WorldResult result = world.run({.n_ranks = 10'000}, strategy, [&](RankHandle& rank) {
    for (int i = 0; i < 5; ++i) {
      rank.point({});
      ++n_points;
    }
  });
  EXPECT_EQ(n_points, 50'000);
  EXPECT_GE(result.n_choices, 50'000U);
}

TEST(WorldTest, RanksKnowTheirEnvironment) {
  World world;
  FifoStrategy strategy;
  world.run({.n_ranks = 2, .environment = {{"MASTER_ADDR", "localhost"}}},
            strategy,
            [](RankHandle& rank) {
              EXPECT_EQ(rank.environment("RANK"), std::to_string(to_int(rank.rank())));
              EXPECT_EQ(rank.environment("WORLD_SIZE"), "2");
              EXPECT_EQ(rank.environment("MASTER_ADDR"), "localhost");
              EXPECT_EQ(rank.environment("HOME"), std::nullopt);
            });
}

}  // namespace
}  // namespace lockstep::sim
