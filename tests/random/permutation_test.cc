#include "lockstep/random/permutation.h"

#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/check.h"

namespace lockstep {
namespace {

using Order = std::vector<std::int64_t>;

// The algorithms as the sources state them, one draw and one swap at a time.
Order naive_upwards(std::uint32_t seed, std::uint32_t n) {
  std::mt19937 draws(seed);
  Order order(n);
  std::iota(order.begin(), order.end(), 0);
  for (std::uint32_t i = 0; i + 1 < n; ++i) {
    const std::uint32_t place = static_cast<std::uint32_t>(draws()) % (n - i);
    std::swap(order[i], order[i + place]);
  }
  return order;
}

Order naive_inside_out(std::uint32_t seed, std::uint32_t n) {
  std::mt19937 draws(seed);
  Order order(n);
  for (std::uint32_t i = 0; i < n; ++i) {
    const std::uint64_t high = draws();
    const std::uint64_t word = (high << 32U) | draws();
    const std::uint64_t place = word % (i + 1);
    order[i] = order[place];
    order[place] = i;
  }
  return order;
}

TEST(PermutationTest, SeedZeroPermutesSixteenElementsAsTorchDoes) {
  Generator generator(0);
  EXPECT_EQ(randperm(generator, 16), (Order{12, 10, 9, 6, 11, 8, 13, 5, 2, 14, 15, 0, 4, 3, 7, 1}));
}

TEST(PermutationTest, FewerThanTwoElementsTakeNoDraw) {
  Generator generator(9);
  EXPECT_EQ(randperm(generator, 0), Order{});
  EXPECT_EQ(randperm(generator, 1), Order{0});
  EXPECT_EQ(generator.random(), Generator(9).random());
}

TEST(PermutationTest, TakesOneDrawFewerThanElements) {
  for (const std::int64_t n : {2, 128, 129, 130, 700}) {
    Generator generator(9);
    randperm(generator, n);
    std::mt19937 model(9);
    model.discard(static_cast<std::uint64_t>(n - 1));
    EXPECT_EQ(generator.random(), model()) << n;
  }
}

TEST(PermutationTest, BlocksEqualTheNaiveShuffle) {
  for (const std::uint32_t n : {2U, 127U, 128U, 129U, 130U, 256U, 257U, 258U, 385U, 5000U}) {
    Generator generator(n);
    Order order(n);
    shuffle_upwards(generator, order);
    EXPECT_EQ(order, naive_upwards(n, n)) << n;
  }
}

TEST(PermutationTest, TheLargeAlgorithmEqualsTheNaiveOneAndTakesTwoDrawsPerElement) {
  for (const std::uint32_t n : {0U, 1U, 2U, 31U, 32U, 33U, 64U, 1000U}) {
    Generator generator(n + 1);
    Order order(n);
    shuffle_inside_out(generator, order);
    EXPECT_EQ(order, naive_inside_out(n + 1, n)) << n;
    std::mt19937 model(n + 1);
    model.discard(2 * n);
    EXPECT_EQ(generator.random(), model()) << n;
  }
}

TEST(PermutationTest, TheTwoAlgorithmsDiffer) {
  Generator up(1);
  Generator out(1);
  Order upwards(10);
  Order inside_out(10);
  shuffle_upwards(up, upwards);
  shuffle_inside_out(out, inside_out);
  EXPECT_NE(upwards, inside_out);
}

TEST(PermutationTest, ANegativeSizeIsAContractViolation) {
  Generator generator(1);
  EXPECT_THROW(randperm(generator, -1), ContractViolation);
}

}  // namespace
}  // namespace lockstep
