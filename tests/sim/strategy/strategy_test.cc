#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/sim/fiber/world.h"
#include "lockstep/sim/strategy/strategies.h"

#include "tests/sim/support/fifo_strategy.h"

namespace lockstep::sim {
namespace {

std::string interleaving(Strategy& strategy) {
  World world;
  std::string log;
  world.run({.n_ranks = 4}, strategy, [&](RankHandle& rank) {
    for (int i = 0; i < 4; ++i) {
      log += static_cast<char>('0' + to_int(rank.rank()));
      rank.point({});
    }
  });
  return log;
}

TEST(StrategyTest, RoundRobinTakesTurns) {
  EXPECT_EQ(interleaving(*make_round_robin()), "0123012301230123");
}

TEST(StrategyTest, RunToBlockFinishesOneRankAfterTheOther) {
  EXPECT_EQ(interleaving(*make_run_to_block()), "0000111122223333");
}

TEST(StrategyTest, WhatIsDisabledIsNotPicked) {
  const auto resume = [](std::int32_t rank, bool polls = false) {
    return Action{.id = resume_id(Rank{rank}), .rank = Rank{rank}, .polls = polls};
  };
  const auto strategy = make_run_to_block();
  strategy->start(2);
  strategy->on_enabled(resume(0));
  strategy->on_enabled(resume(1));
  ASSERT_EQ(strategy->pick(), resume_id(Rank{0}));
  // Rank 0 goes on, and 1 is taken back.
  strategy->on_enabled(resume(0));
  strategy->on_disabled(resume_id(Rank{1}));
  ASSERT_EQ(strategy->pick(), resume_id(Rank{0}));
  // Rank 0 polls, so that it waits for its turn, and is taken back there.
  strategy->on_enabled(resume(0, true));
  strategy->on_disabled(resume_id(Rank{0}));
  strategy->on_enabled(resume(1));
  ASSERT_EQ(strategy->pick(), resume_id(Rank{1}));
  strategy->on_enabled(resume(1, true));
  EXPECT_EQ(strategy->pick(), resume_id(Rank{1}));
}

// Every rank is enabled again as soon as another one is picked: then what is expected is what comes.
void expect_forecasts_to_hold(Strategy& strategy, std::size_t ahead) {
  constexpr std::int32_t kRanks = 50;
  constexpr std::size_t kPicks = 400;
  strategy.start(kRanks);
  for (std::int32_t r = 0; r < kRanks; ++r) {
    strategy.on_enabled({.id = resume_id(Rank{r}), .rank = Rank{r}});
  }
  std::map<std::size_t, ActionId> forecasts;
  ActionId running = strategy.pick();
  std::size_t n_held = 0;
  for (std::size_t i = 0; i < kPicks; ++i) {
    // The rank that runs is not enabled yet, as in a world where the next is looked for.
    const ActionId later = strategy.expected(ahead);
    if (later != kNoAction) forecasts[i + ahead] = later;
    strategy.on_enabled({.id = running, .polls = true});
    running = strategy.pick();
    const auto forecast = forecasts.find(i);
    if (forecast == forecasts.end()) continue;
    ASSERT_EQ(forecast->second, running) << strategy.describe() << ", pick " << i;
    ++n_held;
  }
  EXPECT_GT(n_held, kPicks / 2) << strategy.describe();
}

TEST(StrategyTest, WhatIsExpectedComes) {
  for (const std::size_t ahead : {1U, 3U, 8U}) {
    expect_forecasts_to_hold(*make_round_robin(), ahead);
    expect_forecasts_to_hold(*make_run_to_block(), ahead);
    const auto inner = make_round_robin();
    expect_forecasts_to_hold(*make_recording(*inner), ahead);
  }
}

// Its list is in another order by then where a rank near the end was taken: a few forecasts fail.
TEST(StrategyTest, RandomExpectsMostOfWhatComes) {
  constexpr std::int32_t kRanks = 1000;
  constexpr int kPicks = 2000;
  constexpr std::size_t kAhead = 8;
  const auto strategy = make_random(7);
  strategy->start(kRanks);
  for (std::int32_t r = 0; r < kRanks; ++r) strategy->on_enabled({.id = resume_id(Rank{r})});
  std::deque<ActionId> forecasts;
  ActionId running = strategy->pick();
  int n_held = 0;
  for (int i = 0; i < kPicks; ++i) {
    forecasts.push_back(strategy->expected(kAhead));
    strategy->on_enabled({.id = running});
    running = strategy->pick();
    if (forecasts.size() <= kAhead) continue;
    if (forecasts.front() == running) ++n_held;
    forecasts.pop_front();
  }
  // Each of the eight picks in between moves one of a thousand places: 1 - 2 * 8 / 1000 hold at least.
  EXPECT_GT(n_held, kPicks * 96 / 100);
}

// Ranks that are not there, have ended, or come last: in a world so large that they are looked for.
TEST(StrategyTest, AForecastThatIsWrongChangesNothing) {
  class Wrong final : public testing::FifoStrategy {
   public:
    ActionId expected(std::size_t ahead) const override {
      const std::uint64_t number = n_asked_++ % 3 == 0 ? ~std::uint64_t{0} : n_asked_ * 7 % 400;
      return static_cast<ActionId>(number + ahead);
    }

    std::uint64_t n_asked() const { return n_asked_; }

   private:
    mutable std::uint64_t n_asked_ = 0;
  };

  const auto turns_under = [](Strategy& strategy) {
    World world;
    std::vector<std::int32_t> turns;
    world.run({.n_ranks = 400}, strategy, [&](RankHandle& rank) {
      for (int i = 0; i < 1 + to_int(rank.rank()) % 5; ++i) {
        turns.push_back(to_int(rank.rank()));
        rank.point({});
      }
    });
    return turns;
  };
  testing::FifoStrategy honest;
  Wrong wrong;
  EXPECT_EQ(turns_under(wrong), turns_under(honest));
  EXPECT_GT(wrong.n_asked(), 400U);
}

TEST(StrategyTest, SchedulesThatNeedAllThatHappensExpectNothing) {
  const auto strategy = make_pct({});
  strategy->start(2);
  strategy->on_enabled({.id = resume_id(Rank{0})});
  EXPECT_EQ(strategy->expected(0), kNoAction);
}

// Two ranks that wait for each other's flag: the poller must let the other one run.
TEST(StrategyTest, RunToBlockLetsOthersRunWhileARankPolls) {
  World world;
  bool done = false;
  const auto strategy = make_run_to_block();
  const WorldResult result =
      world.run({.n_ranks = 2, .livelock_points = 1000}, *strategy, [&](RankHandle& rank) {
        if (rank.rank() == Rank{1}) done = true;
        while (!done) rank.point({PointKind::kWait, 0});
      });
  EXPECT_FALSE(result.livelock);
}

TEST(StrategyTest, RandomIsAFunctionOfItsSeed) {
  const auto strategy = make_random(5);
  const std::string first = interleaving(*strategy);
  EXPECT_EQ(interleaving(*strategy), first);
  EXPECT_EQ(interleaving(*make_random(5)), first);
  EXPECT_NE(interleaving(*make_random(6)), first);
}

TEST(StrategyTest, RandomReachesEveryFirstPick) {
  std::string firsts;
  for (std::uint64_t seed = 0; seed < 64; ++seed)
    firsts += interleaving(*make_random(seed)).front();
  for (const char rank : std::string("0123")) EXPECT_NE(firsts.find(rank), std::string::npos);
}

constexpr ActionId kRank0 = resume_id(Rank{0});
constexpr ActionId kRank1 = resume_id(Rank{1});

TEST(StrategyTest, TheDefaultLetsTheLowestRankRunUntilItBlocks) {
  const auto plain = make_replay(Schedule{});
  EXPECT_EQ(interleaving(*plain.value()), "0000111122223333");
}

// Rank 0 gives way to rank 1 before its third operation (it was picked twice), and continues
// after rank 1 has ended.
TEST(StrategyTest, ADeviationIsFoundByItsRanksOwnProgress) {
  const auto replay = make_replay({.deviations = {{kRank0, 2, kRank1}}});
  EXPECT_EQ(interleaving(*replay.value()), "0011110022223333");
  EXPECT_TRUE(replay.value()->skipped().empty());
}

TEST(StrategyTest, WhatHasNoPlaceIsSkippedAndReported) {
  const Deviation good{kRank0, 2, kRank1};
  const Deviation impossible{kRank0, 2, resume_id(Rank{9})};
  const Deviation too_late{kRank0, 77, kRank1};
  const auto replay = make_replay({.deviations = {too_late, impossible, good}});
  EXPECT_EQ(interleaving(*replay.value()), "0011110022223333");
  EXPECT_EQ(replay.value()->skipped(), (std::vector<Deviation>{too_late, impossible}));
}

TEST(StrategyTest, APrefixContinuesWithAnotherStrategy) {
  const auto replay = make_replay(decode_schedule("@0-1=2/3/round-robin").value());
  EXPECT_EQ(interleaving(*replay.value()).substr(0, 3), "022");
  const std::string text = interleaving(*replay.value());
  EXPECT_EQ(text, interleaving(*replay.value()));
  EXPECT_EQ(replay.value()->describe(), "@0-1=2/3/round-robin");
}

TEST(StrategyTest, WhatAnyStrategyDidIsAScheduleWithDeviations) {
  for (const char* name : {"round-robin", "run-to-block", "random", "pct:steps=20"}) {
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      const auto strategy = std::move(make_strategy(name, seed).value());
      const auto recording = make_recording(*strategy);
      const std::string first = interleaving(*recording);
      const std::string text = encode_schedule(recording->schedule());
      const auto replay = make_strategy(text, 0);
      ASSERT_TRUE(replay.ok()) << text;
      EXPECT_EQ(interleaving(*replay.value()), first) << text;
      EXPECT_EQ(interleaving(*make_strategy(strategy->describe(), 999).value()), first);
    }
  }
}

// Ranks that run one after the other need no words at all; one switch needs one.
TEST(StrategyTest, SchedulesAreShort) {
  const auto plain = make_run_to_block();
  const auto recording = make_recording(*plain);
  interleaving(*recording);
  EXPECT_EQ(encode_schedule(recording->schedule()), "@");
}

TEST(StrategyTest, SchedulesHaveOneText) {
  const ActionId transfer = action_id(ActionKind::kTransfer, 40);
  const ActionId timer = action_id(ActionKind::kTimer, 3);
  const Schedule schedule{
      .deviations = {{kRank0, 5, kRank1}, {transfer, 0, kRank0}, {timer, 0, transfer}},
      .n_picks = 12,
      .then = "random:seed=7"};
  const std::string text = "@0-5=1,t14=0,m3=t14/12/random:seed=7";
  EXPECT_EQ(encode_schedule(schedule), text);
  EXPECT_EQ(decode_schedule(text).value(), schedule);
  EXPECT_EQ(encode_schedule({}), "@");
  EXPECT_EQ(decode_schedule("@").value(), Schedule{});
}

TEST(StrategyTest, RefusesWhatIsNotASchedule) {
  for (const char* text : {"",
                           "0-5=1",
                           "@0=1",
                           "@0-5",
                           "@0-5=",
                           "@x-5=1",
                           "@0-05=1",
                           "@t1-2=0",
                           "@0-5=1,",
                           "@r1=0",
                           "@/",
                           "@/5",
                           "@/5/",
                           "@0-5=1/x/random"}) {
    EXPECT_FALSE(decode_schedule(text).ok()) << text;
  }
  EXPECT_FALSE(make_strategy("@/5/randem", 0).ok());
}

// Without changes of priority one rank after the other runs to its end.
TEST(StrategyTest, PctOfDepthOneDrawsAnOrderOfRanks) {
  std::set<std::string> orders;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const auto strategy = make_pct({.depth = 1, .seed = seed});
    std::string order = interleaving(*strategy);
    order.erase(std::unique(order.begin(), order.end()), order.end());
    EXPECT_EQ(order.size(), 4U) << order;
    orders.insert(order);
  }
  EXPECT_EQ(orders.size(), 24U);
}

// One rank must stand still between two given operations of another: depth 2. The bound promises 1
// in 2 * k runs.
TEST(StrategyTest, PctKeepsItsBound) {
  int n_found = 0;
  std::uint64_t n_steps = 0;
  constexpr int kRuns = 2000;
  for (std::uint64_t seed = 0; seed < kRuns; ++seed) {
    const auto strategy = make_pct({.depth = 2, .steps = 42, .seed = seed});
    World world;
    int phase = 0;
    bool seen = false;
    world.run({.n_ranks = 2}, *strategy, [&](RankHandle& rank) {
      for (int i = 0; i < 20; ++i) {
        rank.point({});
        if (rank.rank() == Rank{0}) phase = i == 10 ? 1 : 0;
        if (rank.rank() == Rank{1} && phase == 1) seen = true;
      }
    });
    n_steps = std::max(n_steps, strategy->n_steps());
    EXPECT_EQ(strategy->n_processes(), 2U);
    if (seen) ++n_found;
  }
  // Points at which only one rank can run are not choices.
  EXPECT_LE(n_steps, 42U);
  EXPECT_EQ(pct_bound(2, 42, 2), 1.0 / 84.0);
  EXPECT_GT(n_found, kRuns / 84 * 3 / 4);
}

// The one that polls has the highest priority in half of the runs and must still let go.
TEST(StrategyTest, PctLetsOthersRunWhileARankPolls) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto strategy = make_pct({.seed = seed});
    World world;
    bool done = false;
    const WorldResult result =
        world.run({.n_ranks = 2, .livelock_points = 1000}, *strategy, [&](RankHandle& rank) {
          if (rank.rank() == Rank{1}) done = true;
          while (!done) rank.point({PointKind::kWait, 0});
        });
    EXPECT_FALSE(result.livelock);
  }
}

TEST(StrategyTest, StrategiesHaveNames) {
  EXPECT_EQ(make_strategy("round-robin", 0).value()->describe(), "round-robin");
  EXPECT_EQ(make_strategy("run-to-block", 0).value()->describe(), "run-to-block");
  EXPECT_EQ(make_strategy("random", 7).value()->describe(), "random:seed=7");
  EXPECT_EQ(make_strategy("random:seed=9", 7).value()->describe(), "random:seed=9");
  EXPECT_EQ(make_strategy("pct:depth=4", 7).value()->describe(), "pct:depth=4,steps=1000,seed=7");
  EXPECT_EQ(make_strategy("@0-5=1", 7).value()->describe(), "@0-5=1");
  for (const char* wrong : {"pct:depht=3",
                            "pct:depth=0",
                            "pct:depth=x",
                            "pct:depth=3x",
                            "random:seed=18446744073709551616",
                            "random:",
                            "exhaustive"}) {
    EXPECT_EQ(make_strategy(wrong, 7).ok(), std::string(wrong) == "random:") << wrong;
  }
  const auto unknown = make_strategy("randem", 7);
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.error().message.find("did you mean 'random'"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::sim
