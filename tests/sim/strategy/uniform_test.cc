// Is each interleaving as likely as any other? Counted against formulas and a full enumeration.
#include "lockstep/sim/strategy/uniform.h"

#include <cmath>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/sim/fiber/world.h"
#include "lockstep/sim/strategy/detail/weighted_set.h"
#include "lockstep/sim/strategy/strategies.h"

#include "tests/sim/support/chi_square.h"

namespace lockstep::sim {
namespace {

/// Ranks that do this many things each, and wait for nothing.
using Plan = std::vector<int>;

/// Which rank did something when, as letters.
std::string interleaving(World& world, const Plan& plan, Strategy& strategy) {
  std::string log;
  world.run({.n_ranks = static_cast<std::int32_t>(plan.size())}, strategy, [&](RankHandle& rank) {
    const auto r = static_cast<std::size_t>(to_int(rank.rank()));
    for (int i = 0; i < plan[r]; ++i) {
      if (i > 0) rank.point({});
      log += static_cast<char>('a' + r);
    }
  });
  return log;
}

RankLengths lengths_of(const Plan& plan) {
  World world;
  return count_lengths([&](LengthCounter& counter) {
           interleaving(world, plan, counter);
           return success();
         })
      .value();
}

using testing::chi_square;
using testing::Counts;
using testing::one_in_a_million;

Counts count(const Plan& plan, int n_runs, bool uniform) {
  const RankLengths lengths = lengths_of(plan);
  Counts counts;
  World world;
  for (int seed = 0; seed < n_runs; ++seed) {
    const auto number = static_cast<std::uint64_t>(seed);
    const auto strategy =
        uniform ? make_uniform({.seed = number, .lengths = lengths}) : make_random(number);
    ++counts[interleaving(world, plan, *strategy)];
  }
  return counts;
}

std::int64_t multinomial(const std::vector<int>& parts) {
  std::int64_t result = 1;
  std::int64_t n = 0;
  for (const int part : parts) {
    for (int i = 1; i <= part; ++i) result = result * ++n / i;
  }
  return result;
}

TEST(UniformTest, EveryInterleavingOfUnequalRanksIsEquallyLikely) {
  for (const std::vector<int>& parts :
       {std::vector<int>{9, 1}, {5, 2}, {4, 3, 1}, {2, 2, 1, 1}, {4, 4}}) {
    const Plan& plan = parts;
    const std::int64_t n_cells = multinomial(parts);
    const int n_runs = static_cast<int>(n_cells) * 60;
    const Counts counts = count(plan, n_runs, true);
    EXPECT_EQ(counts.size(), static_cast<std::size_t>(n_cells));
    EXPECT_LT(chi_square(counts, n_cells, n_runs), one_in_a_million(n_cells - 1));
  }
}

// The twin: picking each enabled rank equally often is far from that.
TEST(UniformTest, ARandomWalkIsNotUniform) {
  for (const std::vector<int>& parts : {std::vector<int>{9, 1}, {5, 2}, {4, 3, 1}, {4, 4}}) {
    const std::int64_t n_cells = multinomial(parts);
    const int n_runs = static_cast<int>(n_cells) * 60;
    const Counts counts = count(parts, n_runs, false);
    EXPECT_GT(chi_square(counts, n_cells, n_runs), 2.0 * one_in_a_million(n_cells - 1));
  }
}

// Of 9 + 1 resumptions the short rank goes first in 1 of 10 interleavings, and in half of all random walks.
TEST(UniformTest, TheShortRankGoesFirstAsOftenAsTheFormulaSays) {
  const Plan plan = {9, 1};
  const std::string first = "baaaaaaaaa";
  EXPECT_NEAR(static_cast<double>(count(plan, 4000, true)[first]), 400.0, 4.75 * std::sqrt(360.0));
  EXPECT_NEAR(
      static_cast<double>(count(plan, 4000, false)[first]), 2000.0, 4.75 * std::sqrt(1000.0));
}

TEST(UniformTest, LengthsAreResumptions) {
  EXPECT_EQ(lengths_of({3, 1}).stretches, (std::vector<std::vector<std::uint64_t>>{{3}, {1}}));
  EXPECT_EQ(lengths_of({1, 5, 2}).stretches,
            (std::vector<std::vector<std::uint64_t>>{{1}, {5}, {2}}));
}

TEST(UniformTest, IsAFunctionOfItsSeedAndItsNameMakesItAgain) {
  const Plan plan = {5, 3, 2};
  const RankLengths lengths = lengths_of(plan);
  std::set<std::string> words;
  World world;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const auto strategy = make_uniform({.seed = seed, .lengths = lengths});
    const std::string word = interleaving(world, plan, *strategy);
    EXPECT_EQ(interleaving(world, plan, *strategy), word);
    const auto again = make_strategy(strategy->describe(), 999);
    ASSERT_TRUE(again.ok()) << strategy->describe();
    EXPECT_EQ(interleaving(world, plan, *again.value()), word);
    words.insert(word);
  }
  EXPECT_GT(words.size(), 20U);
}

TEST(UniformTest, LengthsHaveOneWord) {
  const RankLengths lengths{.stretches = {{3, 2, 2, 2, 2}, {5}, {5}, {}}};
  EXPECT_EQ(encode_lengths(lengths), "3.2x4/2r5/0");
  EXPECT_EQ(decode_lengths("3.2x4/2r5/0").value(), lengths);
  for (const char* wrong : {"x",
                            "3.",
                            "3x",
                            "0x4",
                            "-1",
                            "3/",
                            "r3",
                            "2r",
                            "99999999",
                            "3x99999999",
                            "1048576r1x1048576",
                            "3.2*4"}) {
    EXPECT_FALSE(decode_lengths(wrong).ok()) << wrong;
  }
}

TEST(UniformTest, ASingleRunNeedsTheLengths) {
  const auto without = make_strategy("uniform:seed=7", 0);
  ASSERT_FALSE(without.ok());
  EXPECT_NE(without.error().text().find("explore with it"), std::string::npos);
  const auto misspelled = make_strategy("uniform:lenghts=3", 0);
  ASSERT_FALSE(misspelled.ok());
  EXPECT_NE(misspelled.error().text().find("did you mean 'lengths'"), std::string::npos);
}

TEST(WeightedSetTest, FindsTheNumberWhoseWeightCoversAPlace) {
  WeightedSet set;
  std::vector<std::uint64_t> weights = {3, 0, 1, 0, 5, 2, 0};
  for (const std::uint64_t weight : weights) set.set(set.append(), weight);
  for (int round = 0; round < 3; ++round) {
    std::uint64_t at = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      for (std::uint64_t k = 0; k < weights[i]; ++k) EXPECT_EQ(set.at(at++), i);
    }
    EXPECT_EQ(set.total(), at);
    weights[1] += 4;
    weights[4] -= 1;
    weights.push_back(1);
    set.set(1, weights[1]);
    set.set(4, weights[4]);
    set.set(set.append(), 1);
  }
}

}  // namespace
}  // namespace lockstep::sim
