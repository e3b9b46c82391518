// samples-covered and epoch-reshuffled on epochs written by hand.
#include <gtest/gtest.h>

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::EventStream;

using Ids = std::vector<std::int64_t>;

struct Epochs {
  explicit Epochs(std::int32_t n_ranks) : stream(n_ranks) {}

  EpochEvent make(std::int64_t size,
                  std::int64_t per_rank,
                  std::uint64_t key = 0,
                  std::string_view split = "train") {
    return {.split = stream.name(split),
            .sampler = stream.name("distributed"),
            .generator_key = key,
            .order_digest = key * 31 + 1,
            .dataset_size = size,
            .n_replicas = stream.n_ranks(),
            .per_rank = per_rank,
            .shuffle = true};
  }

  void begin(std::int32_t rank, std::int32_t epoch, const EpochEvent& event) {
    stream.at(rank).epoch = epoch;
    stream.add(rank, event);
  }

  void consume(std::int32_t rank, const Ids& ids, std::string_view split = "train") {
    stream.add(rank, SampleEvent{.split = stream.name(split), .ids = ids});
    ++stream.at(rank).opt;
  }

  EventStream stream;
};

/// Five samples on two ranks: padding repeats one.
Epochs one_epoch(const Ids& first, const Ids& second) {
  Epochs job(2);
  for (const std::int32_t rank : {0, 1}) {
    job.begin(rank, 0, job.make(5, 3));
    job.consume(rank, rank == 0 ? first : second);
  }
  return job;
}

TEST(SamplesCoveredTest, HoldsWhenOnlyPaddingRepeats) {
  EXPECT_EQ(check("samples-covered", one_epoch({0, 2, 4}, {1, 3, 0}).stream).verdict,
            Verdict::kHolds);
}

TEST(SamplesCoveredTest, ASecondRepetitionIsOneTooMany) {
  const LawResult result = check("samples-covered", one_epoch({0, 2, 4}, {1, 0, 2}).stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].field, "duplicates");
  EXPECT_EQ(result.findings[0].epoch, 0);
}

TEST(SamplesCoveredTest, ASamplerOfMoreRanksThanThereAreLeavesSamplesOut) {
  for (const std::int64_t n_replicas : {2, 4}) {
    Epochs job(2);
    for (const std::int32_t rank : {0, 1}) {
      EpochEvent epoch = job.make(8, 2);
      epoch.n_replicas = n_replicas;
      job.begin(rank, 0, epoch);
      job.consume(rank, {rank, rank + n_replicas});
    }
    const LawResult result = check("samples-covered", job.stream);
    const bool leaves_out = n_replicas == 4;
    ASSERT_EQ(result.findings.size(), leaves_out ? 1U : 0U);
    if (!leaves_out) continue;
    EXPECT_EQ(id_of(result.findings[0].cause), "world-from-devices");
    EXPECT_NE(result.findings[0].message.find("over 4 ranks, but there are 2"), std::string::npos);
  }
}

TEST(SamplesCoveredTest, AnEpochThatStopsOnTheWayClaimsNoCoverage) {
  EXPECT_EQ(check("samples-covered", one_epoch({0, 2}, {1, 3}).stream).verdict, Verdict::kHolds);
  EXPECT_EQ(check("samples-covered", one_epoch({0, 2}, {0, 2}).stream).verdict, Verdict::kBroken);
}

TEST(SamplesCoveredTest, NamesRanksThatReadTheSameShard) {
  Epochs job(4);
  for (std::int32_t rank = 0; rank < 4; ++rank) {
    job.begin(rank, 0, job.make(8, 2));
    job.consume(rank, rank % 2 == 0 ? Ids{0, 4} : Ids{1, 5});
  }
  const LawResult result = check("samples-covered", job.stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(id_of(result.findings[0].cause), "local-rank-as-rank");
}

TEST(SamplesCoveredTest, NamesAnUnshardedStream) {
  Epochs job(2);
  for (const std::int32_t rank : {0, 1}) {
    EpochEvent epoch = job.make(4, 4);
    epoch.sampler = job.stream.name("sequential");
    epoch.n_replicas = 1;
    job.begin(rank, 0, epoch);
    job.consume(rank, {0, 1, 2, 3});
  }
  EXPECT_EQ(id_of(check("samples-covered", job.stream).findings.at(0).cause), "iterable-unsharded");
}

TEST(SamplesCoveredTest, EveryRankMayEvaluateTheWholeSet) {
  Epochs job(2);
  for (const std::int32_t rank : {0, 1}) {
    EpochEvent epoch = job.make(2, 2, 0, "eval");
    epoch.sampler = job.stream.name("sequential");
    epoch.n_replicas = 1;
    job.begin(rank, 0, epoch);
    job.consume(rank, {8, 9}, "eval");
    job.begin(rank, 0, job.make(4, 2));
    job.consume(rank, rank == 0 ? Ids{0, 2} : Ids{1, 3});
  }
  EXPECT_EQ(check("samples-covered", job.stream).verdict, Verdict::kHolds);
}

TEST(SamplesCoveredTest, NamesSamplesOfAnotherSplit) {
  Epochs job(2);
  for (const std::int32_t rank : {0, 1}) {
    job.begin(rank, 0, job.make(8, 4));
    job.consume(rank, rank == 0 ? Ids{0, 2, 4, 6} : Ids{1, 3, 5, 9});
    job.begin(rank, 0, job.make(2, 1, 0, "eval"));
    job.consume(rank, {8 + rank}, "eval");
  }
  const LawResult result = check("samples-covered", job.stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(id_of(result.findings[0].cause), "split-leak");
  EXPECT_EQ(result.findings[0].ranks, (std::vector<Rank>{Rank{1}}));
}

TEST(SamplesCoveredTest, StepsDoneAgainAfterARestartCountOnce) {
  Epochs job(2);
  for (const std::int32_t rank : {0, 1}) {
    job.begin(rank, 0, job.make(8, 4));
    for (const std::int64_t i : {0, 1, 2}) job.consume(rank, {2 * i + rank});
    job.stream.at(rank).attempt = 1;  // The snapshot was of one step.
    job.stream.at(rank).opt = 1;
    job.begin(rank, 0, job.make(8, 4));
    for (const std::int64_t i : {1, 2, 3}) job.consume(rank, {2 * i + rank});
  }
  EXPECT_EQ(check("samples-covered", job.stream).verdict, Verdict::kHolds);
}

TEST(SamplesCoveredTest, AResumeThatReplaysTheEpochIsSeen) {
  Epochs job(2);
  for (const std::int32_t rank : {0, 1}) {
    job.begin(rank, 0, job.make(8, 4));
    for (const std::int64_t i : {0, 1, 2}) job.consume(rank, {2 * i + rank});
    job.stream.at(rank).attempt = 1;  // All three steps survive, yet the loader starts over.
    job.begin(rank, 0, job.make(8, 4));
    job.consume(rank, {rank});
  }
  EXPECT_EQ(check("samples-covered", job.stream).findings.at(0).field, "duplicates");
}

/// Three ranks consume half of an epoch of 12; then two start over, or four, among `n_replicas`.
/// Rank r reads what rank `as` of the new world should, where it is given.
Epochs elastic(std::int32_t n_later, std::int64_t n_replicas, std::vector<std::int32_t> as = {}) {
  Epochs job(4);
  for (const std::int32_t rank : {0, 1, 2}) {
    EpochEvent epoch = job.make(12, 4);
    epoch.n_replicas = 3;
    job.begin(rank, 0, epoch);
    for (const std::int64_t i : {0, 1}) job.consume(rank, {3 * i + rank});
  }
  for (std::int32_t rank = 0; rank < n_later; ++rank) {
    job.stream.at(rank) = {.attempt = 1, .opt = 2};
    job.stream.add(rank, EnvironmentEvent{.world = n_later});
    EpochEvent epoch = job.make(12, 12 / n_replicas);
    epoch.n_replicas = n_replicas;
    job.begin(rank, 0, epoch);
    const std::int64_t reads = as.empty() ? rank : as[static_cast<std::size_t>(rank)];
    for (std::int64_t i = reads; i < 12; i += n_replicas) job.consume(rank, {i});
    job.begin(rank, 1, epoch);
  }
  return job;
}

TEST(SamplesCoveredTest, AnotherNumberOfRanksBeginsTheEpochAgain) {
  for (const std::int32_t n : {2, 4}) {
    const LawResult result = check("samples-covered", elastic(n, n).stream, {.n_ranks = 3});
    EXPECT_EQ(result.verdict, Verdict::kHolds);
    EXPECT_EQ(result.n_checked, 12);
  }
}

TEST(SamplesCoveredTest, ASamplerThatKeepsTheOldNumberOfRanksIsSeen) {
  const LawResult fewer = check("samples-covered", elastic(2, 3).stream, {.n_ranks = 3});
  ASSERT_EQ(fewer.findings.size(), 1U);
  EXPECT_EQ(fewer.findings[0].field, "missing");
  EXPECT_EQ(fewer.findings[0].attempt, 1);
  const LawResult more =
      check("samples-covered", elastic(4, 3, {0, 1, 2, 0}).stream, {.n_ranks = 3});
  ASSERT_EQ(more.findings.size(), 1U);
  EXPECT_EQ(id_of(more.findings[0].cause), "local-rank-as-rank");
  EXPECT_EQ(more.findings[0].ranks, (std::vector<Rank>{Rank{0}, Rank{3}}));
}

TEST(SamplesCoveredTest, FinishedEpochsAreJudgedOnTheWay) {
  Epochs job(2);
  for (const std::int32_t rank : {0, 1}) {
    for (std::int32_t epoch = 0; epoch < 3; ++epoch) {
      job.begin(rank, epoch, job.make(4, 2));
      job.consume(rank, epoch == 1 ? Ids{0, 1} : Ids{rank, rank + 2});
    }
  }
  const LawResult result = check("samples-covered", job.stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].epoch, 1);
}

TEST(SamplesCoveredTest, SharesMustBeEqual) {
  Epochs job(2);
  for (const std::int32_t rank : {0, 1}) {
    job.begin(rank, 0, job.make(5, 3 - rank));
    job.consume(rank, rank == 0 ? Ids{0, 2, 4} : Ids{1, 3});
  }
  const LawResult result = check("samples-covered", job.stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].field, "count");
}

LawResult reshuffled(std::initializer_list<std::uint64_t> keys_of_epochs, bool shuffle = true) {
  Epochs job(2);
  for (const std::int32_t rank : {0, 1}) {
    std::int32_t epoch = 0;
    for (const std::uint64_t key : keys_of_epochs) {
      EpochEvent event = job.make(8, 4, key);
      event.shuffle = shuffle;
      job.begin(rank, epoch++, event);
    }
  }
  return check("epoch-reshuffled", job.stream);
}

TEST(EpochReshuffledTest, HoldsWhenEveryEpochHasItsKey) {
  const LawResult result = reshuffled({7, 8, 9});
  EXPECT_EQ(result.verdict, Verdict::kHolds);
  EXPECT_EQ(result.n_checked, 3 + 2 * 2);
}

TEST(EpochReshuffledTest, NamesTheFirstEpochThatRepeats) {
  const LawResult result = reshuffled({7, 8, 8, 8});
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].epoch, 2);
  EXPECT_EQ(id_of(result.findings[0].cause), "no-set-epoch");
}

TEST(EpochReshuffledTest, WithoutShufflingThereIsNothingToCheck) {
  EXPECT_EQ(reshuffled({7, 7}, false).verdict, Verdict::kNotCheckable);
}

TEST(EpochReshuffledTest, EqualOrdersOfTinySetsHappenByChance) {
  for (const std::int64_t size : {8, 21}) {
    Epochs job(2);
    for (const std::int32_t rank : {0, 1}) {
      for (const std::int32_t epoch : {0, 1}) {
        EpochEvent event = job.make(size, size / 2, 7U + static_cast<std::uint64_t>(epoch));
        event.order_digest = 5;
        job.begin(rank, epoch, event);
      }
    }
    EXPECT_EQ(check("epoch-reshuffled", job.stream).verdict,
              size < 21 ? Verdict::kHolds : Verdict::kBroken);
  }
}

TEST(EpochReshuffledTest, NamesRanksWithTheirOwnSeed) {
  Epochs job(3);
  for (const std::int32_t rank : {0, 1, 2}) job.begin(rank, 0, job.make(9, 3, rank == 2 ? 1 : 0));
  const LawResult result = check("epoch-reshuffled", job.stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].ranks, (std::vector<Rank>{Rank{2}}));
  EXPECT_EQ(id_of(result.findings[0].cause), "sampler-seed-differs");
}

/// Passes of two ranks that name these epochs, each with a step and the order of its name.
std::vector<Advice> advice_on_names(std::initializer_list<std::int32_t> epochs, bool steps = true) {
  Epochs job(2);
  for (const std::int32_t rank : {0, 1}) {
    for (const std::int32_t epoch : epochs) {
      job.begin(rank, epoch, job.make(24, 12, 7U + static_cast<std::uint64_t>(epoch)));
      if (steps) job.consume(rank, {rank});
    }
  }
  return check("epoch-reshuffled", job.stream).advice;
}

TEST(EpochReshuffledTest, AdvisesALoopThatSetsTheEpochAtItsEnd) {
  const std::vector<Advice> advice = advice_on_names({0, 0, 1, 2});
  ASSERT_EQ(advice.size(), 1U);
  EXPECT_EQ(advice[0].id, "A-epoch-set-late");
  EXPECT_NE(advice[0].message.find("epoch 0, the second from step 1"), std::string::npos);
  EXPECT_EQ(advice_on_names({4, 4, 5}).size(), 1U) << "resumed";
}

TEST(EpochReshuffledTest, AnEpochThatIsBegunAgainIsNotSetLate) {
  EXPECT_TRUE(advice_on_names({0, 1, 2}).empty());
  EXPECT_TRUE(advice_on_names({0, 0}).empty()) << "nothing shows how the loop goes on";
  EXPECT_TRUE(advice_on_names({0, 1, 1, 2}).empty()) << "not the first";
  EXPECT_TRUE(advice_on_names({0, 0, 1, 1, 2, 2}).empty()) << "two passes per epoch";
  EXPECT_TRUE(advice_on_names({0, 0, 1}, false).empty()) << "no step: a look at the data";
}

/// A private stream's states by rank, worker and epoch.
struct Streams {
  explicit Streams(std::int32_t n_ranks) : stream(n_ranks) {}

  void draw(std::int32_t rank, std::int32_t epoch, std::int64_t worker, std::uint64_t state) {
    stream.at(rank).epoch = epoch;
    stream.add(
        rank,
        RngEvent{.stream = stream.name(name), .shared = shared, .worker = worker, .state = state});
  }

  bool shared = false;
  std::string_view name = "augment";
  EventStream stream;
};

TEST(RngScopesTest, HoldsForPrivateStreamsThatAllDiffer) {
  Streams job(2);
  std::uint64_t state = 1;
  for (const std::int32_t epoch : {0, 1}) {
    for (const std::int32_t rank : {0, 1}) {
      for (const std::int64_t worker : {0, 1}) job.draw(rank, epoch, worker, state++);
    }
  }
  const LawResult result = check("rng-scopes", job.stream);

  EXPECT_EQ(result.verdict, Verdict::kHolds);
  EXPECT_EQ(result.n_checked, 7);
}

TEST(RngScopesTest, NamesClonesAmongTheWorkersOfARank) {
  Streams job(2);
  job.draw(0, 0, 0, 5);
  job.draw(0, 0, 1, 6);
  job.draw(1, 0, 0, 7);
  job.draw(1, 0, 1, 7);
  const LawResult result = check("rng-scopes", job.stream);

  ASSERT_EQ(result.findings.size(), 1U);
  const Finding& finding = result.findings[0];
  EXPECT_EQ(id_of(finding.cause), "worker-seed-clones");
  EXPECT_EQ(finding.tensor, "augment");
  EXPECT_EQ(finding.ranks, std::vector<Rank>{Rank{1}});
  EXPECT_EQ(finding.message,
            "stream 'augment' should be private, but rank 1, worker 1, epoch 0 repeats the draws "
            "of rank 1, worker 0, epoch 0");
}

TEST(RngScopesTest, NamesClonesAmongRanksAndAmongEpochs) {
  Streams ranks(2);
  for (const std::int32_t rank : {0, 1}) ranks.draw(rank, 0, -1, 5);
  const LawResult among_ranks = check("rng-scopes", ranks.stream);
  ASSERT_EQ(among_ranks.findings.size(), 1U);
  EXPECT_EQ(id_of(among_ranks.findings[0].cause), "rng-same-dropout");
  EXPECT_EQ(among_ranks.findings[0].ranks, (std::vector<Rank>{Rank{0}, Rank{1}}));

  Streams epochs(1);
  for (const std::int32_t epoch : {0, 1, 2}) epochs.draw(0, epoch, 3, 5);
  const LawResult among_epochs = check("rng-scopes", epochs.stream);
  ASSERT_EQ(among_epochs.findings.size(), 1U);
  EXPECT_EQ(id_of(among_epochs.findings[0].cause), "worker-seed-clones");
  EXPECT_EQ(among_epochs.findings[0].epoch, 1);
}

TEST(RngScopesTest, AnEpochDoneAgainAfterARestartMayDrawTheSame) {
  Streams again(1);
  again.draw(0, 1, 0, 5);
  again.stream.at(0).attempt = 1;
  again.draw(0, 1, 0, 5);
  again.draw(0, 2, 0, 6);
  EXPECT_EQ(check("rng-scopes", again.stream).verdict, Verdict::kHolds);

  Streams reseeded(1);  // The restarted process draws in epoch 2 what it drew in epoch 1.
  reseeded.draw(0, 1, 0, 5);
  reseeded.stream.at(0).attempt = 1;
  reseeded.draw(0, 2, 0, 5);
  EXPECT_EQ(check("rng-scopes", reseeded.stream).verdict, Verdict::kBroken);
}

TEST(RngScopesTest, NamesRanksWhosePartsOfAModelBeginAlike) {
  Streams job(3);
  job.name = "initial shards";
  for (const std::int32_t rank : {0, 1, 2}) job.draw(rank, 0, -1, rank == 1 ? 6 : 5);
  const LawResult result = check("rng-scopes", job.stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(id_of(result.findings[0].cause), "shards-alike");
  EXPECT_EQ(result.findings[0].ranks, (std::vector<Rank>{Rank{0}, Rank{2}}));
  EXPECT_EQ(result.findings[0].message,
            "all shards that rank 2 has of the model begin with the same values as rank 0's");
}

TEST(RngScopesTest, ARankMayBeginWithTheSamePartsAgain) {
  Streams job(2);
  job.name = "initial shards";
  for (const std::int32_t epoch : {0, 1}) {
    for (const std::int32_t rank : {0, 1}) {
      job.draw(rank, epoch, -1, static_cast<std::uint64_t>(rank + 5));
    }
  }
  EXPECT_EQ(check("rng-scopes", job.stream).verdict, Verdict::kHolds);
}

TEST(RngScopesTest, SharedStreamsAreEqualOnAllRanks) {
  Streams job(3);
  job.shared = true;
  for (const std::int32_t rank : {0, 1, 2}) job.draw(rank, 0, -1, 5);
  for (const std::int32_t rank : {0, 1, 2}) job.draw(rank, 1, -1, 5);
  EXPECT_EQ(check("rng-scopes", job.stream).verdict, Verdict::kHolds);

  for (const std::int32_t rank : {0, 1, 2}) job.draw(rank, 2, -1, rank == 2 ? 7U : 6U);
  const LawResult result = check("rng-scopes", job.stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].ranks, std::vector<Rank>{Rank{2}});
  EXPECT_EQ(result.findings[0].epoch, 2);
}

TEST(RngScopesTest, NothingDrawnIsNotCheckable) {
  EXPECT_EQ(check("rng-scopes", Streams(2).stream).verdict, Verdict::kNotCheckable);
}

}  // namespace
}  // namespace lockstep
