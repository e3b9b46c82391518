#include "lockstep/laws/rules/detail/samples/pass_tally.h"

#include <gtest/gtest.h>

namespace lockstep::laws {
namespace {

/// Two ranks that share a set of four samples evenly.
PassTally halves() {
  PassTally tally;
  tally.n_ranks = 2;
  for (const std::int32_t rank : {0, 1}) {
    tally.declared[rank] = {.dataset_size = 4, .n_replicas = 2, .per_rank = 2, .pads = false};
  }
  return tally;
}

TEST(PassTallyTest, DisjointHalvesAreRight) {
  PassTally tally = halves();
  tally.add({.opt = 3, .rank = 0, .ids = {0, 2}});
  EXPECT_FALSE(tally.is_complete());
  tally.add({.opt = 2, .rank = 1, .ids = {1, 3}});
  EXPECT_TRUE(tally.is_complete());
  EXPECT_EQ(tally.surplus(), 0);
  EXPECT_EQ(tally.step, 2);
  EXPECT_FALSE(tally.uneven_shares().has_value());
  EXPECT_FALSE(tally.wrong_counts(false).has_value());
}

TEST(PassTallyTest, RanksThatReadOneShardAreNamed) {
  PassTally tally = halves();
  tally.add({.rank = 0, .ids = {0, 2}});
  tally.add({.rank = 1, .ids = {0, 2}});
  const auto finding = tally.wrong_counts(false);
  ASSERT_TRUE(finding.has_value());
  EXPECT_EQ(finding->field, "duplicates");
  EXPECT_EQ(finding->cause, Cause::kLocalRankAsRank);
  EXPECT_EQ(finding->ranks, (std::vector<Rank>{Rank{0}, Rank{1}}));
}

// A shard that two ranks were given comes in one order; lists of samples that differ do not.
TEST(PassTallyTest, RanksThatReadTheSameSamplesInDifferentOrdersListThemDifferently) {
  PassTally tally = halves();
  tally.add({.rank = 0, .ids = {0, 2}});
  tally.add({.rank = 1, .ids = {2, 0}});
  const auto finding = tally.wrong_counts(false);
  ASSERT_TRUE(finding.has_value());
  EXPECT_EQ(finding->field, "duplicates");
  EXPECT_EQ(finding->cause, Cause::kDataOrderDiffers);
  EXPECT_EQ(finding->ranks, (std::vector<Rank>{Rank{0}, Rank{1}}));
}

TEST(PassTallyTest, OrdersThatDifferExplainDuplicatesFirst) {
  PassTally tally = halves();
  tally.declared[1].order_digest = 7;
  tally.add({.rank = 0, .ids = {0, 2}});
  tally.add({.rank = 1, .ids = {2, 0}});
  EXPECT_EQ(tally.wrong_counts(false)->cause, Cause::kSamplerSeedDiffers);
}

TEST(PassTallyTest, AFinishedEpochMayMissNothingAndAStoppedOneAnything) {
  PassTally tally = halves();
  for (auto& [rank, declared] : tally.declared) declared.dataset_size = 5;
  for (auto& [rank, declared] : tally.declared) declared.per_rank = 1;
  tally.add({.rank = 0, .ids = {0}});
  EXPECT_FALSE(tally.wrong_counts(false).has_value());
  tally.add({.rank = 1, .ids = {1}});
  EXPECT_FALSE(tally.wrong_counts(false).has_value()) << "two were to be drawn";
  for (auto& [rank, declared] : tally.declared) declared.n_replicas = 3;
  EXPECT_EQ(tally.wrong_counts(false)->field, "missing");
}

TEST(PassTallyTest, PaddingAllowsForSomeSamplesTwice) {
  PassTally tally = halves();
  for (auto& [rank, declared] : tally.declared) declared.dataset_size = 3;
  tally.add({.rank = 0, .ids = {0, 2}});
  tally.add({.rank = 1, .ids = {1, 0}});
  EXPECT_EQ(tally.wrong_counts(false)->field, "duplicates");
  for (auto& [rank, declared] : tally.declared) declared.pads = true;
  EXPECT_FALSE(tally.wrong_counts(false).has_value());
}

TEST(PassTallyTest, RanksThatDrawDifferentNumbersAreThoseOfTheSmallerPart) {
  PassTally tally = halves();
  tally.declared[2] = {.dataset_size = 4, .n_replicas = 3, .per_rank = 1, .pads = false};
  const auto finding = tally.uneven_shares();
  ASSERT_TRUE(finding.has_value());
  EXPECT_EQ(finding->ranks, (std::vector<Rank>{Rank{2}}));
  EXPECT_EQ(finding->cause, Cause::kUnevenBatches);
}

/// Four ranks in pairs, each pair with one half of four samples: the stages of two pipelines.
PassTally pairs(std::int64_t n_replicas = 2) {
  PassTally tally;
  tally.n_ranks = 4;
  for (const std::int32_t rank : {0, 1, 2, 3}) {
    tally.declared[rank] = {
        .dataset_size = 4, .n_replicas = n_replicas, .per_rank = 2, .pads = false};
    tally.add({.rank = rank, .ids = {rank / 2, 2 + rank / 2}});
  }
  return tally;
}

TEST(PassTallyTest, RanksThatComputeOneReplicaTogetherReadOneShare) {
  PassTally tally = pairs();
  EXPECT_TRUE(tally.wrong_counts(false).has_value());
  tally.keep_one_reader_per_share();
  EXPECT_EQ(tally.n_ranks, 2);
  EXPECT_EQ(tally.surplus(), 0);
  EXPECT_TRUE(tally.is_complete());
  EXPECT_FALSE(tally.wrong_counts(false).has_value());
}

TEST(PassTallyTest, EveryRankIsKeptWhereSharesAreNotCopiedEvenly) {
  PassTally uneven = pairs();
  uneven.by_rank[3] = {0, 2};
  uneven.keep_one_reader_per_share();
  EXPECT_EQ(uneven.n_ranks, 4) << "three ranks read one share";
  PassTally undeclared = pairs(4);
  undeclared.keep_one_reader_per_share();
  EXPECT_EQ(undeclared.n_ranks, 4) << "the sampler divides among all ranks";
  PassTally whole = pairs(1);
  for (auto& [rank, ids] : whole.by_rank) ids = {0, 1, 2, 3};
  whole.keep_one_reader_per_share();
  EXPECT_EQ(whole.n_ranks, 4) << "nothing is divided";
}

}  // namespace
}  // namespace lockstep::laws
