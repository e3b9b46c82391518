// Worlds with a clock: timers, what computing costs, and in which order ranks act.
#include <string>

#include <gtest/gtest.h>

#include "lockstep/sim/fiber/world.h"

#include "tests/sim/support/fifo_strategy.h"

namespace lockstep::sim {
namespace {

using testing::FifoStrategy;

TEST(WorldTest, TimersFireInOrderOfTimeAndThenOfCreation) {
  World world;
  FifoStrategy strategy;
  std::string log;
  world.run({.n_ranks = 1}, strategy, [&](RankHandle& rank) {
    world.at({20}, [&] { log += "c"; });
    world.at({10}, [&] { log += "a"; });
    world.at({10}, [&] { log += "b"; });
    rank.sleep({30});
    EXPECT_EQ(rank.now().ns, 30);
  });
  EXPECT_EQ(log, "abc");
}

TEST(WorldTest, ComputeIsFreeInUntimedRuns) {
  World world;
  FifoStrategy strategy;
  world.run({.n_ranks = 1}, strategy, [](RankHandle& rank) {
    rank.spend({1000});
    rank.point({});
    EXPECT_EQ(rank.now().ns, 0);
  });
}

TEST(WorldTest, TimedRunsActInOrderOfTheirClocks) {
  World world;
  FifoStrategy strategy;
  std::string log;
  std::int64_t last_ns = 0;
  world.run({.n_ranks = 3, .timed = true}, strategy, [&](RankHandle& rank) {
    const std::int64_t cost = 30 - 10 * to_int(rank.rank());
    for (int i = 0; i < 3; ++i) {
      rank.spend({cost});
      rank.point({});
      EXPECT_GE(rank.now().ns, last_ns);
      EXPECT_EQ(rank.now().ns, cost * (i + 1));
      last_ns = rank.now().ns;
      log += static_cast<char>('0' + to_int(rank.rank()));
    }
  });
  // Clocks: rank 2 at 10, 20, 30; rank 1 at 20, 40, 60; rank 0 at 30, 60, 90.
  EXPECT_EQ(log.substr(0, 1), "2");
  EXPECT_EQ(log.back(), '0');
  EXPECT_EQ(last_ns, 90);
}

// A rank that polls forever does not stop time for the one it waits for.
TEST(WorldTest, PollingLetsTimePass) {
  World world;
  FifoStrategy strategy;
  bool done = false;
  const WorldResult result = world.run({.n_ranks = 2}, strategy, [&](RankHandle& rank) {
    if (rank.rank() == Rank{0}) {
      while (!done) rank.point({PointKind::kWait, 0});
    } else {
      rank.sleep({1'000'000});
      done = true;
    }
  });
  EXPECT_FALSE(result.livelock);
}

}  // namespace
}  // namespace lockstep::sim
