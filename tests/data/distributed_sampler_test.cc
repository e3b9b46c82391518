#include "lockstep/data/distributed_sampler.h"

#include <limits>

#include <gtest/gtest.h>

#include "lockstep/data/batch_sampler.h"

#include "tests/data/fake_host.h"
#include "tests/data/sampler_laws.h"

namespace lockstep::data {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();

DistributedSampler made(const DistributedSamplerOptions& options) {
  return DistributedSampler::make(options).value();
}

Indices indices_of(const DistributedSamplerOptions& options, std::int64_t epoch = 0) {
  DistributedSampler sampler = made(options);
  sampler.set_epoch(epoch);
  Indices out;
  sampler.indices(out);
  return out;
}

std::vector<Indices> streams_of(DistributedSamplerOptions options) {
  std::vector<Indices> streams;
  for (options.rank = 0; options.rank < options.replicas; ++options.rank) {
    streams.push_back(indices_of(options));
  }
  return streams;
}

std::string sampler_error(const DistributedSamplerOptions& options) {
  const Result<DistributedSampler> result = DistributedSampler::make(options);
  return result.ok() ? "" : result.error().text();
}

TEST(DistributedSamplerTest, PadsWithTheBeginningOfTheOrder) {
  EXPECT_EQ(streams_of({.size = 10, .replicas = 4, .shuffle = false}),
            (std::vector<Indices>{{0, 4, 8}, {1, 5, 9}, {2, 6, 0}, {3, 7, 1}}));
}

TEST(DistributedSamplerTest, DropsTheTailThatDoesNotDivide) {
  EXPECT_EQ(streams_of({.size = 10, .replicas = 4, .shuffle = false, .drop_last = true}),
            (std::vector<Indices>{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
}

TEST(DistributedSamplerTest, FewerSamplesThanRanksRepeatOrVanish) {
  EXPECT_EQ(streams_of({.size = 3, .replicas = 4, .shuffle = false}),
            (std::vector<Indices>{{0}, {1}, {2}, {0}}));
  EXPECT_EQ(streams_of({.size = 1, .replicas = 3, .shuffle = false}),
            (std::vector<Indices>{{0}, {0}, {0}}));
  EXPECT_EQ(streams_of({.size = 3, .replicas = 4, .shuffle = false, .drop_last = true}),
            (std::vector<Indices>(4)));
  EXPECT_EQ(streams_of({.size = 0, .replicas = 2}), (std::vector<Indices>(2)));
}

// The example people print: 16 samples, 2 ranks, batches of 4, seed 0, epoch 0. A published
// printout shows 2 15 4 7 as rank 1's first batch; that is rank 0's second.
TEST(DistributedSamplerTest, SixteenSamplesOnTwoRanksMakeTheBatchesOfTorch) {
  const auto streams = streams_of({.size = 16, .replicas = 2});
  const BatchSampler batches = BatchSampler::make(4).value();
  const auto batch = [&](std::size_t rank, std::int64_t k) {
    const auto view = batches.batch(streams[rank], k);
    return Indices(view.begin(), view.end());
  };

  EXPECT_EQ(batch(0, 0), (Indices{12, 9, 11, 13}));
  EXPECT_EQ(batch(1, 0), (Indices{10, 6, 8, 5}));
  EXPECT_EQ(batch(0, 1), (Indices{2, 15, 4, 7}));
  EXPECT_EQ(batch(1, 1), (Indices{14, 0, 3, 1}));
}

TEST(DistributedSamplerTest, TwoShuffledEpochsGiveEveryRankTheIndicesOfTorch) {
  const std::vector<std::vector<Indices>> expected = {{{4, 3, 6}, {1, 9, 2}, {7, 0, 4}, {5, 8, 1}},
                                                      {{5, 0, 7}, {6, 8, 4}, {1, 9, 5}, {2, 3, 6}}};
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    for (std::int64_t rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(indices_of({.size = 10, .replicas = 4, .rank = rank}, epoch),
                expected[static_cast<std::size_t>(epoch)][static_cast<std::size_t>(rank)]);
    }
  }
}

TEST(DistributedSamplerTest, ForgettingSetEpochRepeatsTheOrder) {
  const DistributedSampler sampler = made({.size = 100, .replicas = 2});
  Indices first;
  Indices second;
  sampler.indices(first);
  sampler.indices(second);
  EXPECT_EQ(first, second);
  EXPECT_NE(first, indices_of({.size = 100, .replicas = 2}, 1));
}

TEST(DistributedSamplerTest, SeedAndEpochCountOnlyAsTheirSum) {
  EXPECT_EQ(indices_of({.size = 50, .replicas = 3, .seed = 7}, 5),
            indices_of({.size = 50, .replicas = 3, .seed = 12}, 0));
}

TEST(DistributedSamplerTest, SeedsWrapInsteadOfOverflowing) {
  const Indices wrapped = indices_of({.size = 50, .replicas = 3, .seed = kMost}, 1);
  EXPECT_EQ(wrapped, indices_of({.size = 50, .replicas = 3, .seed = kLeast}, 0));
  EXPECT_EQ(indices_of({.size = 50, .replicas = 3, .seed = kLeast}, -1),
            indices_of({.size = 50, .replicas = 3, .seed = kMost}, 0));
  EXPECT_EQ(indices_of({.size = 50, .replicas = 3, .seed = -1}, 1),
            indices_of({.size = 50, .replicas = 3, .seed = 0}, 0));
  EXPECT_EQ(indices_of({.size = 50, .replicas = 3, .seed = std::int64_t{1} << 32U}, 2),
            indices_of({.size = 50, .replicas = 3, .seed = 2}, 0));
}

TEST(DistributedSamplerTest, RanksOutsideTheWorldAreRefusedInPyTorchsWords) {
  EXPECT_EQ(sampler_error({.size = 8, .replicas = 2, .rank = 2}),
            "Invalid rank 2, rank should be in the interval [0, 1]");
  EXPECT_EQ(sampler_error({.size = 8, .replicas = 2, .rank = -1}),
            "Invalid rank -1, rank should be in the interval [0, 1]");
  EXPECT_EQ(sampler_error({.size = 8, .replicas = 0, .rank = 0}),
            "Invalid rank 0, rank should be in the interval [0, -1]");
  EXPECT_NE(sampler_error({.size = 8, .replicas = kLeast, .rank = 0}), "");
}

TEST(DistributedSamplerTest, ImpossibleSizesAreRefused) {
  EXPECT_EQ(sampler_error({.size = -1}), "a data set cannot have -1 samples");
  EXPECT_EQ(sampler_error({.size = kMost, .replicas = 2}),
            "the padded sample count does not fit 64 bits");
  EXPECT_EQ(sampler_error({.size = kMost, .replicas = 1}), "");
}

TEST(DistributedSamplerTest, AWorldComputesAPermutationOncePerEpoch) {
  CountingMemo memo;
  std::vector<Indices> shared;
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    for (std::int64_t rank = 0; rank < 5; ++rank) {
      DistributedSampler sampler = made({.size = 23, .replicas = 5, .rank = rank});
      sampler.set_epoch(epoch);
      Indices out;
      sampler.indices(out, &memo);
      EXPECT_EQ(out, indices_of({.size = 23, .replicas = 5, .rank = rank}, epoch));
    }
  }
  EXPECT_EQ(memo.made(), 3);
}

TEST(DistributedSamplerTest, OtherSizesAndSeedsDoNotShareAPermutation) {
  CountingMemo memo;
  Indices out;
  made({.size = 23}).indices(out, &memo);
  made({.size = 24}).indices(out, &memo);
  made({.size = 23, .seed = 1}).indices(out, &memo);
  made({.size = 23, .shuffle = false}).indices(out, &memo);
  EXPECT_EQ(memo.made(), 3);
}

TEST(DistributedSamplerTest, AnOrderIsReadWithoutBeingStored) {
  const DistributedSampler sampler = made({.size = 10, .replicas = 4, .rank = 2});
  const EpochOrder order = sampler.order();
  Indices out;
  sampler.indices(out);
  for (std::int64_t k = 0; k < sampler.length(); ++k) {
    EXPECT_EQ(order.at(2 + 4 * k), out[static_cast<std::size_t>(k)]);
  }
}

void expect_all_laws(DistributedSamplerOptions options, Memo& memo) {
  Epoch epoch{.size = options.size, .drop_last = options.drop_last, .streams = {}};
  Indices order;
  for (options.rank = 0; options.rank < options.replicas; ++options.rank) {
    const DistributedSampler sampler = made(options);
    epoch.streams.emplace_back();
    sampler.indices(epoch.streams.back(), &memo);
    sampler.global_order(order, &memo);
  }
  ASSERT_EQ(broken_law(epoch), "") << options.size << " on " << options.replicas;
  ASSERT_EQ(interleaved(epoch), order) << options.size << " on " << options.replicas;
}

// Every world of up to 12 ranks over up to 40 samples, with and without shuffling and dropping.
TEST(DistributedSamplerTest, AllSmallWorldsKeepEveryLaw) {
  CountingMemo memo;
  for (std::int64_t size = 0; size <= 40; ++size) {
    for (std::int64_t replicas = 1; replicas <= 12; ++replicas) {
      for (const unsigned flags : {0U, 1U, 2U, 3U}) {
        expect_all_laws({.size = size,
                         .replicas = replicas,
                         .shuffle = (flags & 1U) != 0,
                         .drop_last = (flags & 2U) != 0},
                        memo);
      }
    }
  }
}

Epoch broken_epoch(const std::vector<Indices>& streams) {
  return {.size = 10, .drop_last = false, .streams = streams};
}

TEST(SamplerLawsTest, AHealthyEpochIsQuiet) {
  EXPECT_EQ(broken_law(broken_epoch({{0, 4, 8}, {1, 5, 9}, {2, 6, 0}, {3, 7, 1}})), "");
}

TEST(SamplerLawsTest, ForgottenPaddingIsNoticed) {
  EXPECT_EQ(broken_law(broken_epoch({{0, 4, 8}, {1, 5, 9}, {2, 6}, {3, 7}})), "equal lengths");
}

TEST(SamplerLawsTest, AWrongStrideIsNoticed) {
  EXPECT_EQ(broken_law(broken_epoch({{0, 2, 4}, {1, 3, 5}, {2, 4, 6}, {3, 5, 7}})), "disjoint");
}

TEST(SamplerLawsTest, RanksThatAllSeeEverythingAreNoticed) {
  const Indices all = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  EXPECT_EQ(broken_law(broken_epoch({all, all})), "padding bound");
}

TEST(SamplerLawsTest, PaddingFromElsewhereIsNoticed) {
  EXPECT_EQ(broken_law(broken_epoch({{0, 4, 8}, {1, 5, 9}, {2, 6, 7}, {3, 7, 3}})),
            "padding repeats the beginning");
}

TEST(SamplerLawsTest, DroppingWithoutSayingSoIsNoticed) {
  EXPECT_EQ(broken_law(broken_epoch({{0, 4}, {1, 5}, {2, 6}, {3, 7}})), "padding bound");
}

TEST(SamplerLawsTest, RanksWithDifferentPermutationsAreNoticed) {
  Epoch epoch{.size = 16, .drop_last = false, .streams = {}};
  for (std::int64_t rank = 0; rank < 2; ++rank) {
    epoch.streams.push_back(indices_of({.size = 16, .replicas = 2, .rank = rank, .seed = rank}));
  }
  EXPECT_EQ(broken_law(epoch), "disjoint");
}

}  // namespace
}  // namespace lockstep::data
