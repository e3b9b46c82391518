// samples-covered's advice on ranks that divide a data set at first, and later no longer, on streams written by hand.
#include <gmock/gmock.h>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::DdpJob;
using ::testing::HasSubstr;

using Ids = std::vector<std::int64_t>;

/// The samples of two ranks or more, in passes of batches of four, over one data set that nothing divides.
class ReadPasses {
 public:
  explicit ReadPasses(std::int32_t n_ranks = 2) : job_(n_ranks) {
    for (std::int32_t rank = 0; rank < n_ranks; ++rank) {
      job_.at(rank);
      job_.stream.add(rank, WrapEvent{.group = 0, .n_ranks = n_ranks});
    }
  }

  ReadPasses& pass(const std::vector<Ids>& of_rank) {
    for (std::int32_t rank = 0; rank < job_.n_ranks(); ++rank) {
      const auto nth = static_cast<std::size_t>(rank);
      const NameId name = job_.stream.name(split);
      job_.at(rank);
      job_.stream.add(rank,
                      DataEvent{.part = DataPart::kSet,
                                .split = name,
                                .source = job_.stream.name(source),
                                .digest = rank == 1 ? set_of_1 : 5});
      const Ids& ids = of_rank[nth];
      for (std::size_t i = 0; i < ids.size(); i += 4) {
        const std::span batch = std::span(ids).subspan(i, std::min<std::size_t>(4, ids.size() - i));
        job_.stream.add(rank, SampleEvent{.split = name, .ids = batch});
        ++job_.at(rank).opt;
      }
    }
    return *this;
  }

  std::vector<Advice> advice() { return check("samples-covered", job_.stream).advice; }

  std::string_view source = "Mine";
  std::string_view split = "train";
  std::uint64_t set_of_1 = 5;

 private:
  DdpJob job_;
};

/// An order of numbers below `n`.
Ids order(std::int64_t n, unsigned seed) {
  Ids ids(static_cast<std::size_t>(n));
  std::iota(ids.begin(), ids.end(), 0);
  std::mt19937 generator(seed);
  for (std::size_t i = ids.size(); i > 1; --i) std::swap(ids[i - 1], ids[generator() % i]);
  return ids;
}

/// What a rank takes of an order that it draws from `seed`.
Ids share(unsigned seed, std::size_t rank, std::size_t n_ranks = 2, std::int64_t n = 48) {
  Ids own;
  const Ids all = order(n, seed);
  for (std::size_t i = rank; i < all.size(); i += n_ranks) own.push_back(all[i]);
  return own;
}

std::vector<Ids> divided(unsigned seed) { return {share(seed, 0), share(seed, 1)}; }

TEST(LaterPassesTest, RanksThatDrawOneOrderNoLongerAreNamed) {
  const std::vector<Ids> apart = {share(2, 0), share(3, 1)};
  std::int64_t n_shared = 0;
  for (const std::int64_t id : apart[0]) n_shared += std::ranges::count(apart[1], id);
  const std::vector<Advice> advice =
      ReadPasses().pass(divided(1)).pass(apart).pass(divided(4)).advice();
  ASSERT_EQ(advice.size(), 1U);
  EXPECT_EQ(advice[0].id, "A-order-comes-apart");
  EXPECT_THAT(advice[0].message, HasSubstr("In pass 2, from step 6, " + std::to_string(n_shared)));
  EXPECT_THAT(advice[0].message, HasSubstr("several of ranks 0, 1"));
}

TEST(LaterPassesTest, TheLastPassCountsAsFarAsItCame) {
  Ids begun = share(3, 1);
  begun.resize(20);
  EXPECT_EQ(
      ReadPasses().pass(divided(1)).pass(divided(2)).pass({share(2, 0), begun}).advice().size(),
      1U);
}

TEST(LaterPassesTest, OnlyRanksThatShareSamplesAreNamed) {
  const auto three = [](unsigned seed_of_2) {
    return std::vector<Ids>{share(2, 0, 3, 60), share(2, 1, 3, 60), share(seed_of_2, 2, 3, 60)};
  };
  Ids as_0 = share(2, 0, 3, 60);
  std::vector<Ids> two = three(2);
  two[2] = as_0;
  std::ranges::reverse(two[2]);
  const std::vector<Advice> advice = ReadPasses(3).pass(three(2)).pass(two).advice();
  ASSERT_EQ(advice.size(), 1U);
  EXPECT_THAT(advice[0].message, HasSubstr("20 samples are read by several of ranks 0, 2:"));
}

TEST(LaterPassesTest, RanksThatContinueToDivideTheSetAreNotNamed) {
  EXPECT_TRUE(ReadPasses().pass(divided(1)).pass(divided(2)).pass(divided(3)).advice().empty());
}

// The law itself judges first passes.
TEST(LaterPassesTest, RanksThatNeverDividedTheSetAreNotNamed) {
  EXPECT_TRUE(ReadPasses()
                  .pass({order(48, 1), order(48, 2)})
                  .pass({order(48, 3), order(48, 4)})
                  .advice()
                  .empty());
  EXPECT_TRUE(ReadPasses()
                  .pass({share(1, 0), share(2, 1)})
                  .pass({share(3, 0), share(4, 1)})
                  .advice()
                  .empty());
}

// Two ranks that draw 10 of 1000 have none in common nine times out of ten.
TEST(LaterPassesTest, NothingInCommonByChanceDividesNothing) {
  const auto some = [](std::int64_t first) {
    Ids ids(10);
    std::iota(ids.begin(), ids.end(), first);
    ids.back() = 999;
    return ids;
  };
  Ids low = some(0);
  low.back() = 9;
  EXPECT_TRUE(ReadPasses().pass({low, some(500)}).pass({some(40), some(40)}).advice().empty());
}

// 16 of 48 on each rank: 5.3 in common by chance, where one for padding asks for 7.5. Of 24 there are 12.
TEST(LaterPassesTest, PaddingInTheFirstPassHasToBeLessThanChanceLeaves) {
  const auto some = [](unsigned seed, std::size_t rank, std::size_t n) {
    Ids own = share(seed, rank);
    own.resize(n);
    return own;
  };
  for (const bool padded : {false, true}) {
    for (const std::size_t n : {16U, 24U}) {
      std::vector<Ids> first = {some(1, 0, n), some(1, 1, n)};
      if (padded) first[1].back() = first[0].front();
      ReadPasses job;
      job.pass(first).pass({some(2, 0, n), some(2, 0, n)});
      EXPECT_EQ(job.advice().size(), padded && n == 16 ? 0U : 1U);
    }
  }
}

TEST(LaterPassesTest, PaddingAndAFewMoreAreNoMatter) {
  std::vector<Ids> padded = divided(2);
  for (const std::size_t i : {3U, 5U}) padded[1][i] = padded[0][i];
  EXPECT_TRUE(ReadPasses().pass(divided(1)).pass(padded).advice().empty());
  for (const std::size_t i : {7U, 9U, 11U}) padded[1][i] = padded[0][i];
  EXPECT_EQ(ReadPasses().pass(divided(1)).pass(padded).advice().size(), 1U);
}

// Five that are read again where more are read than at first: batches that were filled up.
TEST(LaterPassesTest, APassThatReadsMoreMayFillUpItsBatches) {
  std::vector<Ids> filled = divided(2);
  filled[1].insert(filled[1].end(), filled[0].begin(), filled[0].begin() + 5);
  EXPECT_TRUE(ReadPasses().pass(divided(1)).pass(filled).advice().empty());
  filled[1].insert(filled[1].end(), filled[0].begin() + 5, filled[0].begin() + 15);
  EXPECT_EQ(ReadPasses().pass(divided(1)).pass(filled).advice().size(), 1U);
}

TEST(LaterPassesTest, DrawsWithReplacementMayRepeatThoseOfOtherRanks) {
  std::vector<Ids> apart = {share(2, 0), share(3, 1)};
  apart[0][0] = apart[0][1];
  EXPECT_TRUE(ReadPasses().pass(divided(1)).pass(apart).advice().empty());
}

TEST(LaterPassesTest, OtherSetsWaysAndSplitsAreNotCompared) {
  const std::vector<Ids> apart = {share(2, 0), share(3, 1)};
  ReadPasses own;
  own.set_of_1 = 6;
  EXPECT_TRUE(own.pass(divided(1)).pass(apart).advice().empty());
  ReadPasses later_own;
  later_own.pass(divided(1)).set_of_1 = 6;
  EXPECT_TRUE(later_own.pass(apart).advice().empty());
  ReadPasses other_way;
  other_way.pass(divided(1)).source = "random";
  EXPECT_TRUE(other_way.pass(apart).advice().empty());
  ReadPasses evaluates;
  evaluates.split = "eval";
  EXPECT_TRUE(evaluates.pass(divided(1)).pass(apart).advice().empty());
}

}  // namespace
}  // namespace lockstep
