// Several trainings in one program: what the second one does again is not held against the first.
#include <gtest/gtest.h>

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::EventStream;

constexpr std::int32_t kRanks = 2;

/// Two trainings of one epoch each, with the same keys and the same samples.
struct Sweep {
  void begin(std::int32_t rank, std::int32_t number) {
    stream.at(rank).epoch = 0;
    stream.at(rank).opt = 0;
    if (number > 0) stream.add(rank, TrainingEvent{.number = number});
  }

  void epoch(std::int32_t rank, std::int32_t epoch, std::uint64_t key) {
    stream.at(rank).epoch = epoch;
    stream.add(rank,
               EpochEvent{.split = stream.name("train"),
                          .sampler = stream.name("distributed"),
                          .generator_key = key,
                          .order_digest = key + 1,
                          .dataset_size = 4,
                          .n_replicas = kRanks,
                          .per_rank = 2,
                          .shuffle = true});
  }

  void samples(std::int32_t rank, std::vector<std::int64_t> ids, std::string_view split = "train") {
    stream.add(rank, SampleEvent{.split = stream.name(split), .ids = ids});
    ++stream.at(rank).opt;
  }

  EventStream stream{kRanks};
};

/// The second training has a second epoch, of the given key.
Sweep two_trainings(std::uint64_t last_key) {
  Sweep job;
  for (std::int32_t rank = 0; rank < kRanks; ++rank) {
    for (std::int32_t number = 0; number < 2; ++number) {
      job.begin(rank, number);
      job.epoch(rank, 0, 7);
      job.samples(rank, {rank, rank + 2});
      if (number == 0) job.epoch(rank, 1, 8);  // Stopped before its first batch.
    }
    job.epoch(rank, 1, last_key);
    job.samples(rank, {rank, rank + 2});
  }
  return job;
}

TEST(PerTrainingTest, ASecondTrainingBeginsWithTheKeysOfTheFirst) {
  const LawResult result = check("epoch-reshuffled", two_trainings(8).stream);
  EXPECT_EQ(result.verdict, Verdict::kHolds);
  EXPECT_EQ(result.n_checked, 8);  // Two ranks: three epochs alike, and two that follow another.
}

TEST(PerTrainingTest, WithoutItsEventTheTrainingsWouldBeOne) {
  Sweep stopped;  // Each after its first epoch, so that a key follows itself.
  for (std::int32_t rank = 0; rank < kRanks; ++rank) {
    for (std::int32_t number = 0; number < 2; ++number) {
      stopped.epoch(rank, number, 7);
      stopped.samples(rank, {rank, rank + 2});
    }
  }
  EXPECT_EQ(check("epoch-reshuffled", stopped.stream).verdict, Verdict::kBroken);
}

TEST(PerTrainingTest, ARepetitionInTheSecondTrainingIsNamedWithItsOwnEpoch) {
  const LawResult result = check("epoch-reshuffled", two_trainings(7).stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].cause, Cause::kNoSetEpoch);
  EXPECT_EQ(result.findings[0].epoch, 1);
  EXPECT_EQ(result.findings[0].step, 1);
  EXPECT_EQ(result.findings[0].ranks, (std::vector<Rank>{Rank{0}, Rank{1}}));
  EXPECT_NE(result.findings[0].message.find("training 2"), std::string::npos);
}

/// Folds: what one training holds out, the other trains on.
Sweep folds(bool leaks) {
  Sweep job;
  for (std::int32_t rank = 0; rank < kRanks; ++rank) {
    for (std::int32_t fold = 0; fold < 2; ++fold) {
      job.begin(rank, fold);
      const std::int64_t first = fold * 4;
      job.epoch(rank, 0, 7);
      job.samples(rank, {first + rank, first + rank + 2});
      const bool leak = leaks && fold == 1 && rank == 1;
      job.samples(rank, {leak ? first : 4 - first + rank}, "val");
    }
  }
  return job;
}

TEST(PerTrainingTest, FoldsAreDisjointInEachTraining) {
  EXPECT_EQ(check("samples-covered", folds(false).stream).verdict, Verdict::kHolds);
}

TEST(PerTrainingTest, ALeakInTheSecondTrainingIsFound) {
  const LawResult result = check("samples-covered", folds(true).stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].cause, Cause::kSplitLeak);
}

/// Rank 1 leaves the first training without its last decision.
EventStream decisions(std::int64_t last_of_rank_1) {
  EventStream stream(kRanks);
  for (std::int32_t rank = 0; rank < kRanks; ++rank) {
    const auto decide = [&](std::int64_t value) {
      stream.add(rank, DecisionEvent{.name = stream.name("stop"), .value = value});
    };
    decide(0);
    if (rank == 0) decide(1);
    stream.add(rank, TrainingEvent{.number = 1});
    decide(0);
    decide(rank == 1 ? last_of_rank_1 : 1);
  }
  return stream;
}

TEST(PerTrainingTest, DecisionsArePairedWithinATraining) {
  EXPECT_EQ(check("decisions-uniform", decisions(1)).verdict, Verdict::kHolds);
  EXPECT_EQ(check("decisions-uniform", decisions(0)).verdict, Verdict::kBroken);
}

TEST(PerTrainingTest, ARestartBeginsWithTheFirstTraining) {
  Sweep job = two_trainings(8);
  for (std::int32_t rank = 0; rank < kRanks; ++rank) {
    job.stream.at(rank).attempt = 1;
    job.epoch(rank, 0, 7);
    job.epoch(rank, 1, 7);
  }
  const LawResult result = check("epoch-reshuffled", job.stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].attempt, 1);
  EXPECT_EQ(result.findings[0].message.find("training 2"), std::string::npos);
}

}  // namespace
}  // namespace lockstep
