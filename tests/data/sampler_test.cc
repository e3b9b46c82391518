// The samplers a loader reads index by index, and splits into several parts.
#include "lockstep/data/sampler.h"

#include <gtest/gtest.h>

#include "lockstep/data/split.h"

namespace lockstep::data {
namespace {

using Ids = std::vector<std::int64_t>;

Ids pass_of(Sampler& sampler) {
  Ids ids;
  sampler.begin();
  while (const auto index = sampler.next()) ids.push_back(*index);
  EXPECT_FALSE(sampler.next().has_value());
  return ids;
}

TEST(SamplerTest, SequentialYieldsTheRowsThemselves) {
  SequentialSampler sampler(4);
  EXPECT_EQ(pass_of(sampler), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(pass_of(sampler), (Ids{0, 1, 2, 3}));
}

TEST(SamplerTest, NothingIsDrawnBeforeAnIndexIsAskedFor) {
  Generator global(3);
  RandomSampler random = RandomSampler::make({.size = 5, .count = 5}, {.global = &global}).value();
  SubsetRandomSampler subset({1, 2, 3}, {.global = &global});
  random.begin();
  subset.begin();
  EXPECT_EQ(global.state(), Generator(3).state());

  random.next();
  Generator two_draws(3);
  two_draws.random64();
  EXPECT_EQ(global.state(), two_draws.state());
}

TEST(SamplerTest, AGivenGeneratorMovesOnAndTheGlobalOneRests) {
  Generator global(3);
  Generator given(9);
  RandomSampler sampler =
      RandomSampler::make({.size = 5, .count = 5}, {.global = &global, .given = &given}).value();
  const Ids first = pass_of(sampler);
  // Four draws a permutation, and one more permutation ends the pass.
  Generator eight(9);
  for (int i = 0; i < 8; ++i) eight.random();

  EXPECT_EQ(given.state(), eight.state());
  EXPECT_EQ(global.state(), Generator(3).state());
  EXPECT_NE(pass_of(sampler), first);
}

TEST(SamplerTest, WeightsDecideHowOftenAnIndexComes) {
  Generator global(7);
  WeightedRandomSampler sampler =
      WeightedRandomSampler::make({.weights = {1, 0, 3}, .count = 4000}, {.global = &global})
          .value();

  std::vector<int> counts(3, 0);
  for (const std::int64_t index : pass_of(sampler)) ++counts[static_cast<std::size_t>(index)];

  EXPECT_EQ(counts[1], 0);
  // 4000 draws at 3/4: 3000, give or take 5 * sqrt(4000 * 3/16) = 137.
  EXPECT_NEAR(counts[2], 3000, 137);
}

TEST(SamplerTest, WhatCannotBeDrawnIsRefused) {
  Generator global(1);
  const SamplerGenerators generators{.global = &global};
  const auto message = [&](WeightedSamplerOptions options) {
    return WeightedRandomSampler::make(std::move(options), generators).error().message;
  };
  const std::string bad_weight = "probability tensor contains either `inf`, `nan` or element < 0";

  EXPECT_EQ(RandomSampler::make({.size = 3, .count = 0}, generators).error().message,
            "num_samples should be a positive integer value, but got num_samples=0");
  EXPECT_EQ(message({.weights = {1}, .count = 0}),
            "num_samples should be a positive integer value, but got num_samples=0");
  EXPECT_EQ(message({.weights = {1, -1}, .count = 1}), bad_weight);
  EXPECT_EQ(message({.weights = {0, 0}, .count = 1}),
            "invalid multinomial distribution (sum of probabilities <= 0)");
  EXPECT_EQ(message({.weights = {1, 1}, .count = 3, .replacement = false}),
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  EXPECT_EQ(message({.weights = {1, 0}, .count = 2, .replacement = false}),
            "cannot draw 2 different samples from 1 positive weights");
  EXPECT_EQ(global.state(), Generator(1).state());
}

TEST(SplitTest, FractionsRoundDownAndTheRestGoesRound) {
  const auto lengths = [](std::int64_t size, std::vector<double> fractions) {
    return split_lengths(size, fractions).value();
  };
  EXPECT_EQ(lengths(30, {0.3, 0.3, 0.4}), (Ids{9, 9, 12}));
  EXPECT_EQ(lengths(10, {0.25, 0.25, 0.5}), (Ids{3, 2, 5}));
  EXPECT_EQ(lengths(11, {0.25, 0.25, 0.5}), (Ids{3, 3, 5}));
  EXPECT_EQ(lengths(0, {1.0}), Ids{0});
}

TEST(SplitTest, WhatDoesNotAddUpIsRefused) {
  Generator generator(0);
  const std::string uneven = "Sum of input lengths does not equal the length of the input dataset!";

  EXPECT_EQ(split_lengths(10, std::vector<double>{0.5, 0.4}).error().message, uneven);
  EXPECT_EQ(split_lengths(10, std::vector<double>{1.5, -0.5}).error().message,
            "Fraction at index 0 is not between 0 and 1");
  EXPECT_EQ(random_split(generator, 10, Ids{5, 4}).error().message, uneven);
  EXPECT_FALSE(random_split(generator, 10, Ids{11, -1}).ok());
  EXPECT_EQ(generator.state(), Generator(0).state());
}

// random_split(range(5), [1]) reads the length 1 as the fraction 1, and yields everything.
TEST(SplitTest, LengthsThatSumToOneAreFractions) {
  Generator generator(0);
  EXPECT_EQ(random_split(generator, 5, Ids{1}).value().at(0).size(), 5U);
}

}  // namespace
}  // namespace lockstep::data
