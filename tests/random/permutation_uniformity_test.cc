// Do permutations put every number at every place equally often? A chi-square test with fixed
// seeds.
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/random/permutation.h"

namespace lockstep {
namespace {

using Order = std::vector<std::int64_t>;

constexpr std::size_t kElements = 8;
constexpr int kShuffles = 40320;  // 8!: an order is expected once, a place 5040 times.

using Shuffle = std::function<void(Generator&, Order&)>;

// Sum over (number, place) of (count - expected)^2 / expected. Rows and columns of the table of
// counts have fixed sums, which leaves (n - 1)^2 degrees of freedom, and for a table of
// permutations the sum is distributed as chi-square times n / (n - 1): divided out here.
double statistic(const Shuffle& shuffle, std::uint64_t seed) {
  std::vector<double> counts(kElements * kElements, 0.0);
  Generator generator(seed);
  Order order(kElements);
  for (int i = 0; i < kShuffles; ++i) {
    std::iota(order.begin(), order.end(), 0);
    shuffle(generator, order);
    for (std::size_t place = 0; place < kElements; ++place) {
      ++counts[static_cast<std::size_t>(order[place]) * kElements + place];
    }
  }
  const double expected = static_cast<double>(kShuffles) / kElements;
  double sum = 0.0;
  for (const double count : counts) sum += (count - expected) * (count - expected) / expected;
  return sum * (kElements - 1) / kElements;
}

// The value that chi-square with `freedom` degrees exceeds with a probability of `sigmas` standard
// deviations of a normal variable: Wilson and Hilferty, PNAS 17(12), 1931.
double threshold(double freedom, double sigmas) {
  const double part = 2.0 / (9.0 * freedom);
  return freedom * std::pow(1.0 - part + sigmas * std::sqrt(part), 3);
}

// 49 degrees of freedom at 4.75 sigma: one fair shuffle in a million would be turned away.
const double kLimit = threshold(49.0, 4.75);

void upwards(Generator& generator, Order& order) { shuffle_upwards(generator, order); }

void inside_out(Generator& generator, Order& order) { shuffle_inside_out(generator, order); }

// The usual mistake: each place is swapped with any place, not only with those still to be filled.
// 8^8 equally likely paths do not divide by 8! orders.
void full_range(Generator& generator, Order& order) {
  for (std::size_t i = 0; i < order.size(); ++i) {
    std::swap(order[i], order[generator.random() % order.size()]);
  }
}

// Another one: a place is never left alone, which makes every order one cycle.
void never_itself(Generator& generator, Order& order) {
  for (std::size_t i = 0; i + 1 < order.size(); ++i) {
    std::swap(order[i], order[i + 1 + generator.random() % (order.size() - i - 1)]);
  }
}

TEST(PermutationUniformityTest, TheThresholdIsThatOfTheTables) {
  // Chi-square with 49 degrees of freedom: 66.339 at 5 percent, 85.351 at 0.1 percent; the formula
  // is off by a tenth at most.
  EXPECT_NEAR(threshold(49.0, 1.6449), 66.339, 0.05);
  EXPECT_NEAR(threshold(49.0, 3.0902), 85.351, 0.1);
}

TEST(PermutationUniformityTest, BothShufflesPutEveryNumberEverywhereEquallyOften) {
  for (const std::uint64_t seed : {0U, 1U, 42U, 5489U}) {
    EXPECT_LT(statistic(upwards, seed), kLimit) << seed;
    EXPECT_LT(statistic(inside_out, seed), kLimit) << seed;
  }
}

// Far too even would be as wrong: half of all fair shuffles are above 48.
TEST(PermutationUniformityTest, TheSpreadIsThatOfChance) {
  double sum = 0.0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) sum += statistic(upwards, seed);
  // The mean of 20 such numbers: 49, give or take 4.75 * sqrt(2 * 49 / 20) = 10.5.
  EXPECT_NEAR(sum / 20, 49.0, 10.5);
}

TEST(PermutationUniformityTest, BiasedShufflesAreTurnedAway) {
  for (const std::uint64_t seed : {0U, 1U, 42U, 5489U}) {
    EXPECT_GT(statistic(full_range, seed), 10 * kLimit) << seed;
    EXPECT_GT(statistic(never_itself, seed), 10 * kLimit) << seed;
  }
}

}  // namespace
}  // namespace lockstep
