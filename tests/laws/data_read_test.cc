// samples-covered on what ranks read where ids of samples cannot say it, written by hand.
#include <gtest/gtest.h>

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::DdpJob;

using Digests = std::vector<std::uint64_t>;

/// The training batches of each rank, by the digest of their values.
struct Batches {
  std::vector<Digests> of_rank;
  std::string_view source = "random";
  std::string_view split = "train";
  bool wrapped = true;
  std::int32_t group = 0;
};

LawResult read(const Batches& batches) {
  DdpJob job(static_cast<std::int32_t>(batches.of_rank.size()));
  for (std::int32_t rank = 0; rank < job.n_ranks(); ++rank) {
    job.at(rank);
    if (batches.wrapped) {
      job.stream.add(rank, WrapEvent{.group = batches.group, .n_ranks = job.n_ranks()});
    }
    for (const std::uint64_t digest : batches.of_rank[static_cast<std::size_t>(rank)]) {
      job.stream.add(rank,
                     DataEvent{.part = DataPart::kBatch,
                               .split = job.stream.name(batches.split),
                               .source = job.stream.name(batches.source),
                               .digest = digest});
      ++job.at(rank).opt;
    }
  }
  return check("samples-covered", job.stream);
}

TEST(DataReadTest, RanksThatAllReadTheSameBatchesAreNamed) {
  const LawResult result = read({.of_rank = {{5, 6, 7}, {5, 6, 7}, {5, 6, 7}}});
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(id_of(result.findings[0].cause), "no-distributed-sampler");
  EXPECT_EQ(result.findings[0].field, "duplicates");
  EXPECT_EQ(result.findings[0].step, 0);
  EXPECT_EQ(result.findings[0].ranks, (std::vector{Rank{0}, Rank{1}, Rank{2}}));
}

TEST(DataReadTest, TheCauseDependsOnWhatIsDrawnFrom) {
  const std::vector<Digests> same = {{5, 6}, {5, 6}};
  EXPECT_EQ(read({.of_rank = same, .source = "sequential"}).findings.at(0).cause,
            Cause::kNoDistributedSampler);
  EXPECT_EQ(read({.of_rank = same, .source = "stream"}).findings.at(0).cause,
            Cause::kIterableUnsharded);
  EXPECT_EQ(read({.of_rank = same, .source = "WeightedRandomSampler"}).findings.at(0).cause,
            Cause::kWeightedNotSharded);
}

// A rank that has died on the way read fewer of them.
TEST(DataReadTest, BatchesAreComparedAsFarAsAllRanksCame) {
  EXPECT_EQ(read({.of_rank = {{5, 6, 7}, {5, 6}}}).findings.size(), 1U);
  EXPECT_EQ(read({.of_rank = {{5, 6, 7}, {5}}}).verdict, Verdict::kHolds);
}

TEST(DataReadTest, RanksWithBatchesOfTheirOwnAreFine) {
  EXPECT_EQ(read({.of_rank = {{5, 6, 7}, {8, 9, 10}}}).verdict, Verdict::kHolds);
  EXPECT_EQ(read({.of_rank = {{5, 6, 7}, {5, 6, 8}}}).verdict, Verdict::kHolds);
  EXPECT_EQ(read({.of_rank = {{5, 6}, {5, 6}, {5, 7}}}).verdict, Verdict::kHolds);
}

// One batch in all steps is a test of the model, on purpose; so is data that is all alike.
TEST(DataReadTest, OneBatchThatIsRepeatedProvesNothing) {
  EXPECT_EQ(read({.of_rank = {{5, 5, 5}, {5, 5, 5}}}).verdict, Verdict::kHolds);
}

TEST(DataReadTest, EveryRankMayEvaluateEverything) {
  EXPECT_EQ(read({.of_rank = {{5, 6}, {5, 6}}, .split = "eval"}).verdict, Verdict::kHolds);
}

// Ranks outside a wrapper's group may share out one model, and then read the same.
TEST(DataReadTest, OnlyRanksWhoseGradientsAreAveragedAreJudged) {
  const std::vector<Digests> same = {{5, 6}, {5, 6}};
  EXPECT_TRUE(read({.of_rank = same, .wrapped = false}).findings.empty());
  EXPECT_TRUE(read({.of_rank = same, .group = 1}).findings.empty());
  EXPECT_TRUE(read({.of_rank = {{5, 6}}}).findings.empty());
}

/// What each rank's sampler divides, pass by pass.
LawResult divide(const std::vector<Digests>& of_rank) {
  DdpJob job(static_cast<std::int32_t>(of_rank.size()));
  for (std::int32_t rank = 0; rank < job.n_ranks(); ++rank) {
    for (const std::uint64_t digest : of_rank[static_cast<std::size_t>(rank)]) {
      job.at(rank);
      job.stream.add(rank,
                     DataEvent{.part = DataPart::kRows,
                               .split = job.stream.name("train"),
                               .source = job.stream.name("distributed"),
                               .digest = digest});
      job.at(rank).opt += 4;
    }
  }
  return check("samples-covered", job.stream);
}

TEST(DataReadTest, ARankThatDividesOtherRowsIsNamed) {
  const LawResult result = divide({{5}, {5}, {9}});
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(id_of(result.findings[0].cause), "split-leak");
  EXPECT_EQ(result.findings[0].field, "rows");
  EXPECT_EQ(result.findings[0].ranks, std::vector{Rank{2}});
}

TEST(DataReadTest, PassesOverRowsAreComparedOneByOne) {
  EXPECT_EQ(divide({{5, 6}, {5, 6}}).verdict, Verdict::kHolds);
  const LawResult result = divide({{5, 6}, {5, 7}});
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].step, 4);
}

}  // namespace
}  // namespace lockstep
