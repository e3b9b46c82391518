// What rows that several ranks read have in common with one division of the data, on lists written by hand.
#include "lockstep/laws/rules/detail/rows/row_passes.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

namespace lockstep::laws {
namespace {

using Batch = std::vector<std::uint64_t>;
using Ranks = std::vector<std::vector<Batch>>;

SharedTally tally(const Ranks& ranks) {
  std::vector<RowList> lists(ranks.size());
  Forwards forwards{.by_rank = {}, .n = ranks.front().size()};
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const Batch& batch : ranks[rank]) lists[rank].add(batch);
    forwards.by_rank.push_back(&lists[rank]);
  }
  return tally_of(forwards);
}

TEST(RowPassesTest, ThePictureIsTrue) {
  const SharedTally seen =
      tally({{{'a', 'b'}, {'c', 'd'}, {'e', 'f'}}, {{'g', 'c'}, {'b', 'h'}, {'d', 'i'}}});
  EXPECT_EQ(seen.n_read, 12);
  EXPECT_EQ(seen.n_shared, 3);
  EXPECT_EQ(seen.n_early, 2);
  EXPECT_EQ(seen.n_passes, 1);
  EXPECT_EQ(seen.first, 1U);
}

TEST(RowPassesTest, ARowOfItsOwnThatARankMeetsAgainBeginsAPass) {
  const SharedTally seen = tally({{{1}, {2}, {1}, {4}, {6}}, {{3}, {5}, {3}, {1}, {7}}});
  EXPECT_EQ(seen.n_passes, 2);
  EXPECT_EQ(seen.n_shared, 1) << "row 1, by rank 1, in the second pass";
  EXPECT_EQ(seen.n_read, 10);
}

TEST(RowPassesTest, TheFirstSharedRowIsThatOfTheFirstPass) {
  const SharedTally seen = tally({{{1}, {2}, {1}, {3}}, {{3}, {1}, {3}, {5}}});
  EXPECT_EQ(seen.n_passes, 2);
  EXPECT_EQ(seen.n_shared, 2);
  EXPECT_EQ(seen.first, 1U);
}

TEST(RowPassesTest, SharesThatGoRoundAreNotShared) {
  EXPECT_EQ(tally({{{1, 2}, {3, 4}, {5, 6}}, {{3, 4}, {5, 6}, {1, 2}}, {{5, 6}, {1, 2}, {3, 4}}})
                .n_shared,
            0);
}

TEST(RowPassesTest, WhatRanksReadInOneForwardIsNotHeldAgainstEachOther) {
  EXPECT_EQ(tally({{{1, 2}, {5, 6}}, {{2, 3}, {6, 7}}}).n_shared, 0);
}

TEST(RowPassesTest, WhatAllRanksReadCountsForNothing) {
  const SharedTally seen = tally({{{1, 2}, {1, 3}, {4, 5}}, {{1, 2}, {6, 7}, {8, 9}}});
  EXPECT_EQ(seen.n_passes, 1) << "row 1 of the first forward is forgotten";
  EXPECT_EQ(seen.n_read, 8);
}

TEST(RowPassesTest, ABatchThatARankRepeatsAtOnceIsReadOnce) {
  const SharedTally seen = tally({{{1}, {1}, {2}}, {{3}, {3}, {1}}});
  EXPECT_EQ(seen.n_passes, 1);
  EXPECT_EQ(seen.n_read, 4);
  EXPECT_EQ(seen.n_shared, 1);
}

TEST(RowPassesTest, ABatchThatHoldsARowTwiceIsLeftOut) {
  const SharedTally seen = tally({{{1, 1}, {2, 4}, {6, 7}}, {{3, 5}, {1, 8}, {2, 9}}});
  EXPECT_EQ(seen.n_passes, 1);
  EXPECT_EQ(seen.n_read, 8);
  EXPECT_EQ(seen.n_shared, 1) << "row 2";
}

// Of geometric numbers with p = 1 / n, by hand: P(one >= k) = (1 - p)^k; of two with p = 1/2, P(sum >= k) = (k + 2) / 2^(k + 1).
TEST(RowPassesTest, ChancesAreThoseOfSumsOfGeometricNumbers) {
  EXPECT_DOUBLE_EQ(chance_of(0, 1, 2), 1.0);
  EXPECT_DOUBLE_EQ(chance_of(10, 1, 2), std::pow(0.5, 10));
  EXPECT_DOUBLE_EQ(chance_of(7, 1, 4), std::pow(0.75, 7));
  EXPECT_NEAR(chance_of(9, 2, 2), 11.0 / 1024.0, 1e-15);
  EXPECT_NEAR(chance_of(3000, 3000, 2), 0.5, 0.02)
      << "the mean, of many passes: no term underflows for good";
}

/// Batches that each rank draws from all data, with or without rows that come twice in one.
Ranks drawn(std::mt19937& generator, std::size_t n_ranks, bool replacement) {
  constexpr std::uint64_t kSize = 64;
  Ranks ranks(n_ranks);
  for (std::vector<Batch>& own : ranks) {
    for (int forward = 0; forward < 6; ++forward) {
      Batch all(kSize);
      std::iota(all.begin(), all.end(), 0);
      std::shuffle(all.begin(), all.end(), generator);
      all.resize(8);
      if (replacement) std::ranges::generate(all, [&] { return generator() % kSize; });
      own.push_back(all);
    }
  }
  return ranks;
}

TEST(RowPassesTest, RanksThatAllDrawFromAllDataAreRarelyUnlikely) {
  std::mt19937 generator(5);
  for (const std::size_t n_ranks : {2U, 4U}) {
    for (const bool replacement : {false, true}) {
      int n_unlikely = 0;
      for (int i = 0; i < 2000; ++i) {
        const SharedTally seen = tally(drawn(generator, n_ranks, replacement));
        if (seen.n_passes > 0 &&
            chance_of(seen.n_shared, seen.n_passes, static_cast<std::int64_t>(n_ranks)) < 0.01)
          ++n_unlikely;
      }
      EXPECT_LE(n_unlikely, 38) << "of 2,000 one in a hundred, and four standard deviations";
    }
  }
}

}  // namespace
}  // namespace lockstep::laws
