// samples-covered on what ranks read where ids of samples cannot say it, written by hand.
#include <array>
#include <gmock/gmock.h>
#include <numeric>
#include <utility>

#include <gtest/gtest.h>

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::DdpJob;
using ::testing::HasSubstr;

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

/// What each rank's sampler divides, pass by pass, and the samples that each rank reads of its first.
LawResult divide(const std::vector<Digests>& of_rank,
                 const std::vector<std::vector<std::int64_t>>& read = {}) {
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
    if (read.empty()) continue;
    job.stream.add(rank,
                   SampleEvent{.split = job.stream.name("train"),
                               .ids = read[static_cast<std::size_t>(rank)]});
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

TEST(DataReadTest, RowsOfWhichNoSampleIsReadByTwoRanksMayBeShares) {
  const LawResult shares = divide({{5}, {9}}, {{0, 4}, {1, 5}});
  ASSERT_EQ(shares.findings.size(), 1U);
  EXPECT_EQ(shares.findings[0].cause, Cause::kNone);
  EXPECT_EQ(shares.findings[0].field, "rows");
  EXPECT_THAT(shares.findings[0].message, HasSubstr("If each subset is already its rank's shard"));

  const auto cause = [](const LawResult& result) { return result.findings.at(0).cause; };
  EXPECT_EQ(cause(divide({{5}, {9}}, {{0, 4}, {1, 4}})), Cause::kSplitLeak) << "one is shared";
  EXPECT_EQ(cause(divide({{5}, {5}, {9}}, {{0, 4}, {1, 5}, {2, 6}})), Cause::kSplitLeak)
      << "two ranks divide the same rows";
  EXPECT_EQ(cause(divide({{5}, {9}})), Cause::kSplitLeak) << "nothing is known of what was read";
}

// Readers of no more are kept, and the message does not speak of the rest.
TEST(DataReadTest, OnlyTheFirst65536SamplesOfAShareAreCompared) {
  constexpr std::int64_t kLookedAt = 1 << 16;
  std::vector<std::int64_t> first(kLookedAt - 1);
  std::iota(first.begin(), first.end(), 10);
  const auto cause = [&](std::vector<std::int64_t> second) {
    return divide({{5}, {9}}, {first, std::move(second)}).findings.at(0).cause;
  };
  EXPECT_EQ(cause({10}), Cause::kSplitLeak);
  EXPECT_EQ(cause({1, 10}), Cause::kNone);
}

/// First passes over a data set that nothing divides: the samples of each rank, and what its set holds.
struct Passes {
  std::vector<std::vector<std::int64_t>> of_rank;
  std::string_view source = "random";
  std::string_view of_last = {};  // Its own source, if it has one.
  Digests sets = {};              // All equal, if empty.
  bool again = true;              // A second pass begins.
  std::string_view split = "train";
  std::int32_t group = 0;
};

LawResult pass_over(const Passes& passes) {
  DdpJob job(static_cast<std::int32_t>(passes.of_rank.size()));
  for (std::int32_t rank = 0; rank < job.n_ranks(); ++rank) {
    const auto nth = static_cast<std::size_t>(rank);
    job.at(rank);
    job.stream.add(rank, WrapEvent{.group = passes.group, .n_ranks = job.n_ranks()});
    const NameId split = job.stream.name(passes.split);
    const bool own = rank == job.n_ranks() - 1 && !passes.of_last.empty();
    const DataEvent begins{.part = DataPart::kSet,
                           .split = split,
                           .source = job.stream.name(own ? passes.of_last : passes.source),
                           .digest = passes.sets.empty() ? 5 : passes.sets[nth]};
    job.stream.add(rank, begins);
    for (const std::int64_t& id : passes.of_rank[nth]) {
      job.stream.add(rank, SampleEvent{.split = split, .ids = {&id, 1}});
      ++job.at(rank).opt;
    }
    if (!passes.again) continue;
    const std::array<std::int64_t, 4> next = {0, 1, 2, 3};
    job.stream.add(rank, begins);
    job.stream.add(rank, SampleEvent{.split = split, .ids = next});
  }
  return check("samples-covered", job.stream);
}

TEST(DataReadTest, RanksThatReadOneSetInOrdersOfTheirOwnAreNamed) {
  const LawResult result = pass_over({.of_rank = {{0, 1, 2, 3}, {2, 3, 1, 0}, {1, 0, 3, 2}}});
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(id_of(result.findings[0].cause), "no-distributed-sampler");
  EXPECT_EQ(result.findings[0].field, "duplicates");
  EXPECT_EQ(result.findings[0].step, 0);
  EXPECT_EQ(result.findings[0].ranks, (std::vector{Rank{0}, Rank{1}, Rank{2}}));
  EXPECT_NE(result.findings[0].message.find("4 of 4 samples"), std::string::npos);
}

// Each sample is read once in a pass, so the beginning of one is enough.
TEST(DataReadTest, TheBeginningOfAPassIsEnoughToFindSharedSamples) {
  const LawResult result = pass_over({.of_rank = {{0, 1, 2}, {2, 5, 6}}, .again = false});
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_NE(result.findings[0].message.find("1 of 5 samples"), std::string::npos);
}

// The second pass reads 0 to 3 on all ranks.
TEST(DataReadTest, OnlyFirstPassesAreCompared) {
  EXPECT_EQ(pass_over({.of_rank = {{0, 1}, {2, 3}}}).verdict, Verdict::kHolds);
}

TEST(DataReadTest, ASetOfTheRanksOwnIsNotDivided) {
  EXPECT_EQ(pass_over({.of_rank = {{0, 1, 2}, {2, 1, 0}}, .sets = {5, 6}}).verdict,
            Verdict::kHolds);
}

TEST(DataReadTest, RanksThatReadInDifferentWaysAreNotCompared) {
  EXPECT_EQ(pass_over({.of_rank = {{0, 1, 2}, {2, 1, 0}}, .of_last = "Mine"}).verdict,
            Verdict::kHolds);
}

// Ranks that read in one order may share out each batch by hand.
TEST(DataReadTest, OneOrderIsJudgedByTheValuesOfBatches) {
  EXPECT_EQ(pass_over({.of_rank = {{0, 1, 2}, {0, 1, 2}}}).verdict, Verdict::kHolds);
  EXPECT_EQ(pass_over({.of_rank = {{0, 1, 2}, {0, 1}}}).verdict, Verdict::kHolds);
}

TEST(DataReadTest, DrawsWithReplacementMayRepeatThoseOfOtherRanks) {
  EXPECT_EQ(pass_over({.of_rank = {{0, 1, 0}, {2, 1, 0}}}).verdict, Verdict::kHolds);
}

TEST(DataReadTest, PartsThatRanksTakeByHandMayNotOverlap) {
  const LawResult result = pass_over({.of_rank = {{0, 2, 4, 6}, {4, 2, 1, 6}}, .source = "subset"});
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(id_of(result.findings[0].cause), "sampler-seed-differs");
  EXPECT_NE(result.findings[0].message.find("3 of 5 samples"), std::string::npos);
  EXPECT_EQ(pass_over({.of_rank = {{0, 2, 4}, {5, 1, 3}}, .source = "subset"}).verdict,
            Verdict::kHolds);
}

// Samples that fill up the last batches are read twice: a batch per rank, of one sample here.
TEST(DataReadTest, PartsMayBePaddedByABatchPerRank) {
  EXPECT_EQ(pass_over({.of_rank = {{0, 2, 4, 1}, {1, 3, 4, 5}}, .source = "subset"}).verdict,
            Verdict::kHolds);
  EXPECT_EQ(pass_over({.of_rank = {{0, 2, 4, 1}, {1, 3, 4, 5}}, .source = "Mine"}).verdict,
            Verdict::kHolds);
}

// Its passes show whether a program's own sampler divides the set: all samples per rank, or a share.
TEST(DataReadTest, OnlyWholePassesOfAProgramsOwnSamplerAreJudged) {
  const std::vector<std::vector<std::int64_t>> shares = {{0, 1, 5, 7}, {5, 1, 7, 3}};
  const LawResult parts = pass_over({.of_rank = shares, .source = "ByLength"});
  ASSERT_EQ(parts.findings.size(), 1U);
  EXPECT_EQ(id_of(parts.findings[0].cause), "sampler-seed-differs");
  EXPECT_EQ(pass_over({.of_rank = shares, .source = "ByLength", .again = false}).verdict,
            Verdict::kHolds);
  const LawResult whole = pass_over({.of_rank = {{0, 1, 2}, {2, 1, 0}}, .source = "ByLength"});
  ASSERT_EQ(whole.findings.size(), 1U);
  EXPECT_EQ(id_of(whole.findings[0].cause), "weighted-not-sharded");
}

// Four of five samples on each of two ranks are more than shares: the set has not as many.
TEST(DataReadTest, ASamplerThatDrawsSomeOfTheSetDividesNothing) {
  EXPECT_EQ(pass_over({.of_rank = {{0, 1, 2, 4}, {4, 3, 1, 0}}, .source = "Some"}).verdict,
            Verdict::kHolds);
}

TEST(DataReadTest, PassesOfOtherSplitsAndGroupsAreFree) {
  const std::vector<std::vector<std::int64_t>> all = {{0, 1, 2}, {2, 1, 0}};
  EXPECT_TRUE(pass_over({.of_rank = all, .split = "eval"}).findings.empty());
  EXPECT_TRUE(pass_over({.of_rank = all, .group = 1}).findings.empty());
  EXPECT_TRUE(pass_over({.of_rank = {{0, 1, 2}}}).findings.empty());
}

/// Digests of what a rank holds.
struct Holds {
  std::uint64_t entries = 0;
  std::uint64_t order = 0;
  std::uint64_t classes = 0;  ///< 0: no samples of known classes.
  std::uint64_t later = 0;    ///< Order and classes of another data set, after it; 0: none.
};

LawResult hold(const std::vector<Holds>& of_rank, std::string_view split = "train") {
  DdpJob job(static_cast<std::int32_t>(of_rank.size()));
  for (std::int32_t rank = 0; rank < job.n_ranks(); ++rank) {
    const Holds& own = of_rank[static_cast<std::size_t>(rank)];
    job.at(rank).opt = 3;
    const auto add = [&](DataPart part, std::uint64_t digest) {
      job.stream.add(rank,
                     DataEvent{.part = part,
                               .split = job.stream.name(split),
                               .source = job.stream.name("distributed"),
                               .digest = digest});
    };
    add(DataPart::kEntries, own.entries);
    if (own.order != 0) add(DataPart::kOrder, own.order);
    if (own.classes != 0) add(DataPart::kClasses, own.classes);
    if (own.later == 0) continue;
    add(DataPart::kEntries, 5);
    add(DataPart::kOrder, own.later);
    add(DataPart::kClasses, 7);
  }
  return check("samples-covered", job.stream);
}

TEST(DataReadTest, RanksThatHoldTheSameSamplesInAnotherOrderAreNamed) {
  const LawResult result = hold({{5, 1}, {5, 2}, {5, 1}, {5, 3}});
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(id_of(result.findings[0].cause), "data-order-differs");
  EXPECT_EQ(result.findings[0].field, "order");
  EXPECT_EQ(result.findings[0].step, 3);
  EXPECT_EQ(result.findings[0].ranks, (std::vector{Rank{1}, Rank{3}}));
}

TEST(DataReadTest, RanksThatHoldOtherSamplesHaveDataOfTheirOwn) {
  EXPECT_EQ(hold({{5, 1}, {6, 2}}).verdict, Verdict::kHolds);
  EXPECT_EQ(hold({{5, 1}, {5, 2}, {6, 3}}).verdict, Verdict::kHolds);
}

TEST(DataReadTest, RanksThatDivideOtherSamplesAreAdvised) {
  const LawResult result = hold({{5, 1}, {5, 2}, {6, 3}});
  ASSERT_EQ(result.advice.size(), 1U);
  EXPECT_EQ(result.advice[0].id, "A-divided-twice");
  EXPECT_THAT(result.advice[0].message,
              HasSubstr("train split: the ranks hold different data sets"));
  EXPECT_EQ(hold({{5, 1, 7}, {6, 2, 8}}).advice.size(), 1U) << "classes that differ as well";

  EXPECT_TRUE(hold({{5, 1}, {5, 2}}).advice.empty()) << "a matter of order";
  EXPECT_TRUE(hold({{5, 1, 7}, {6, 2, 7}}).advice.empty()) << "a matter of classes";
  EXPECT_TRUE(hold({{5, 1}, {6, 2}}, "eval").advice.empty());
}

TEST(DataReadTest, RanksThatShareAShardMayDivideItAmongThemselves) {
  EXPECT_TRUE(hold({{5, 1}, {5, 1}, {6, 2}, {6, 2}}).advice.empty());
  EXPECT_EQ(hold({{5, 1}, {5, 1}, {6, 2}, {7, 3}}).advice.size(), 1U) << "two hold one alone";
}

TEST(DataReadTest, RanksThatNumberTheClassesOfTheSameSamplesDifferentlyAreNamed) {
  const LawResult result = hold({{5, 1, 7}, {6, 2, 7}, {5, 1, 7}});
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(id_of(result.findings[0].cause), "classes-differ");
  EXPECT_EQ(result.findings[0].field, "classes");
  EXPECT_EQ(result.findings[0].ranks, std::vector{Rank{1}});
  EXPECT_EQ(hold({{5, 1, 7}, {6, 2, 8}}).verdict, Verdict::kHolds);
  EXPECT_EQ(hold({{5, 1, 7}, {6, 2, 7}, {7, 3, 8}}).verdict, Verdict::kHolds);
}

TEST(DataReadTest, OneOrderOnAllRanksIsFine) {
  EXPECT_EQ(hold({{5, 1}, {5, 1}}).verdict, Verdict::kHolds);
  EXPECT_EQ(hold({{5, 1, 7}, {5, 1, 7}}).verdict, Verdict::kHolds);
}

TEST(DataReadTest, OnlyTheFirstDataSetOfEachRankCounts) {
  EXPECT_EQ(hold({{5, 1, 0, 2}, {5, 1, 0, 3}}).verdict, Verdict::kHolds);
  // The classes are the second set's: in the first, the ranks have data of their own.
  EXPECT_EQ(hold({{5, 1, 0, 2}, {6, 2, 0, 3}}).verdict, Verdict::kHolds);
}

TEST(DataReadTest, ARankThatDiedBeforeItsOrderWasWrittenIsNotAccused) {
  EXPECT_EQ(hold({{5, 1}, {5, 0}}).verdict, Verdict::kHolds);
}

}  // namespace
}  // namespace lockstep
