#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/sim/fiber/world.h"
#include "lockstep/sim/strategy/strategies.h"

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

std::vector<ActionId> ids(std::initializer_list<std::uint64_t> numbers) {
  std::vector<ActionId> picks;
  for (const std::uint64_t number : numbers) picks.push_back(static_cast<ActionId>(number));
  return picks;
}

TEST(StrategyTest, RoundRobinTakesTurns) {
  EXPECT_EQ(interleaving(*make_round_robin()), "0123012301230123");
}

TEST(StrategyTest, RunToBlockFinishesOneRankAfterTheOther) {
  EXPECT_EQ(interleaving(*make_run_to_block()), "0000111122223333");
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

TEST(StrategyTest, ARecordedScheduleReplays) {
  const auto random = make_random(11);
  const auto recording = make_recording(*random);
  const std::string first = interleaving(*recording);
  const std::string text = encode_schedule(recording->picks());
  const auto decoded = decode_schedule(text);
  ASSERT_TRUE(decoded.ok()) << decoded.error().text();
  EXPECT_EQ(decoded.value(), recording->picks());
  const auto replay = make_replay(decoded.value());
  EXPECT_EQ(interleaving(*replay), first);
  EXPECT_FALSE(replay->diverged());
}

TEST(StrategyTest, AReplayOfAnotherProgramDiverges) {
  const auto replay = make_replay(ids({0, 1, 2, 99}));
  interleaving(*replay);
  EXPECT_TRUE(replay->diverged());
}

TEST(StrategyTest, EncodesRuns) {
  EXPECT_EQ(encode_schedule(ids({})), "");
  EXPECT_EQ(encode_schedule(ids({7})), "7");
  EXPECT_EQ(encode_schedule(ids({0, 1, 2, 3})), "0+1*4");
  EXPECT_EQ(encode_schedule(ids({5, 5, 5})), "5+0*3");
  EXPECT_EQ(encode_schedule(ids({40, 30, 20})), "14-a*3");
  EXPECT_EQ(encode_schedule(ids({0, 1, 2, 9, 9})), "0+1*3.9+0*2");
}

TEST(StrategyTest, RefusesWhatIsNotASchedule) {
  for (const char* text : {"x y", "1+", "1+1", "1+1*", "1+1*1", "1..2", "1+1*zzzzzzzz", "-1"}) {
    EXPECT_FALSE(decode_schedule(text).ok()) << text;
  }
}

TEST(StrategyTest, StrategiesHaveNames) {
  EXPECT_EQ(make_strategy("round-robin", 0).value()->describe(), "round-robin");
  EXPECT_EQ(make_strategy("run-to-block", 0).value()->describe(), "run-to-block");
  EXPECT_EQ(make_strategy("random", 7).value()->describe(), "random:seed=7");
  const auto unknown = make_strategy("randem", 7);
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.error().message.find("did you mean 'random'"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::sim
