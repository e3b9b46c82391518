// Every small case of the distributed sampler: all sizes up to 64, up to 16 ranks, padded and cut,
// shuffled and not, four epochs.
#include <set>

#include <gtest/gtest.h>

#include "lockstep/data/distributed_sampler.h"
#include "lockstep/data/sampler.h"

#include "tests/data/fake_host.h"
#include "tests/data/sampler_laws.h"

namespace lockstep::data {
namespace {

constexpr std::int64_t kSizes = 64;
constexpr std::int64_t kReplicas = 16;
constexpr std::int64_t kEpochs = 4;

Epoch epoch_of(DistributedSamplerOptions options, std::int64_t number, Memo& memo) {
  Epoch epoch{.size = options.size, .drop_last = options.drop_last, .streams = {}};
  for (options.rank = 0; options.rank < options.replicas; ++options.rank) {
    DistributedSampler sampler = DistributedSampler::make(options).value();
    sampler.set_epoch(number);
    epoch.streams.emplace_back();
    sampler.indices(epoch.streams.back(), &memo);
  }
  return epoch;
}

/// Calls `check` with every case and its epochs.
template <typename Check>
void for_all_cases(Check&& check) {
  for (std::int64_t size = 1; size <= kSizes; ++size) {
    for (std::int64_t replicas = 1; replicas <= kReplicas; ++replicas) {
      for (const bool drop_last : {false, true}) {
        for (const bool shuffle : {false, true}) {
          check(DistributedSamplerOptions{
              .size = size, .replicas = replicas, .shuffle = shuffle, .drop_last = drop_last});
        }
      }
    }
  }
}

std::string text_of(const DistributedSamplerOptions& options, std::int64_t epoch) {
  return std::to_string(options.size) + " samples, " + std::to_string(options.replicas) +
         " ranks, drop_last " + std::to_string(static_cast<int>(options.drop_last)) + ", shuffle " +
         std::to_string(static_cast<int>(options.shuffle)) + ", epoch " + std::to_string(epoch);
}

// Cover, disjointness, equal lengths, padding bound: sampler_laws.h.
TEST(SamplerAlgebraTest, EveryLawHoldsForAllSizesRanksAndEpochs) {
  std::int64_t n_cases = 0;
  for_all_cases([&](const DistributedSamplerOptions& options) {
    CountingMemo memo;
    for (std::int64_t epoch = 0; epoch < kEpochs; ++epoch) {
      EXPECT_EQ(broken_law(epoch_of(options, epoch, memo)), "") << text_of(options, epoch);
      ++n_cases;
    }
  });
  EXPECT_EQ(n_cases, kSizes * kReplicas * 2 * 2 * kEpochs);
}

// Each rank computes its order alone, without a memo; dealt back together they are one order.
TEST(SamplerAlgebraTest, RanksAgreeWithoutTalking) {
  for_all_cases([&](DistributedSamplerOptions options) {
    DistributedSampler sampler = DistributedSampler::make(options).value();
    sampler.set_epoch(3);
    Indices order;
    sampler.global_order(order);
    Epoch alone{.size = options.size, .drop_last = options.drop_last, .streams = {}};
    for (; options.rank < options.replicas; ++options.rank) {
      DistributedSampler one = DistributedSampler::make(options).value();
      one.set_epoch(3);
      alone.streams.emplace_back();
      one.indices(alone.streams.back());
    }
    EXPECT_EQ(interleaved(alone), order) << text_of(options, 3);
  });
}

// How many of the epochs 0 .. 3 have an order that an earlier one had too.
std::int64_t n_repeats(const DistributedSamplerOptions& options) {
  std::set<Indices> orders;
  for (std::int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    DistributedSampler sampler = DistributedSampler::make(options).value();
    sampler.set_epoch(epoch);
    Indices order;
    sampler.global_order(order);
    orders.insert(order);
  }
  return kEpochs - static_cast<std::int64_t>(orders.size());
}

// A change is promised only where chance cannot undo it. One sample has one order, two have two, so
// four epochs of up to three samples repeat often; from 21 samples on a repeat has probability
// below 4 * 3 / 2 / 21! < 1e-18. Between them nothing is promised, and with seed 0 sizes from 5 on
// happen not to repeat.
TEST(SamplerAlgebraTest, EpochsDifferWhereThereAreOrdersEnough) {
  EXPECT_EQ(n_repeats({.size = 1}), kEpochs - 1);
  EXPECT_GE(n_repeats({.size = 2}), kEpochs - 2);
  for (std::int64_t size = 21; size <= kSizes; ++size) {
    for (std::int64_t replicas = 1; replicas <= kReplicas; ++replicas) {
      EXPECT_EQ(n_repeats({.size = size, .replicas = replicas}), 0) << size << ' ' << replicas;
      EXPECT_EQ(n_repeats({.size = size, .replicas = replicas, .shuffle = false}), kEpochs - 1);
    }
  }
}

// What goes wrong in real scripts, each identified by the law it breaks.
TEST(SamplerAlgebraTest, BrokenSamplersAreNoticedForEveryShape) {
  for_all_cases([&](const DistributedSamplerOptions& options) {
    if (options.size < 2 * options.replicas || options.replicas < 2) return;
    CountingMemo memo;
    const Epoch healthy = epoch_of(options, 0, memo);

    Epoch same_share = healthy;  // Rank 1 passed rank 0 to its sampler.
    same_share.streams[1] = same_share.streams[0];
    EXPECT_NE(broken_law(same_share), "") << text_of(options, 0);
    Epoch short_share = healthy;  // The last rank got no padding.
    short_share.streams.back().pop_back();
    EXPECT_EQ(broken_law(short_share), "equal lengths") << text_of(options, 0);
    // A cut epoch may find the wrong samples in its dropped tail; only a padded one must cover.
    if (options.size < 21 || !options.shuffle || options.drop_last) return;
    Epoch other_epoch = healthy;  // Rank 1 forgot set_epoch.
    other_epoch.streams[1] = epoch_of(options, 1, memo).streams[1];
    EXPECT_NE(broken_law(other_epoch), "") << text_of(options, 0);
  });
}

// 16 ranks of 1000 samples: one permutation per epoch, whichever rank asks first, none per rank.
TEST(SamplerAlgebraTest, RanksShareOnePermutationPerEpoch) {
  CountingMemo memo;
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    Indices dealt;
    for (std::int64_t rank = 0; rank < kReplicas; ++rank) {
      DistributedSampler sampler =
          DistributedSampler::make({.size = 1000, .replicas = kReplicas, .rank = rank}).value();
      sampler.set_epoch(epoch);
      RankSampler indices(sampler, &memo);
      indices.begin();
      while (const auto index = indices.next()) dealt.push_back(*index);
    }
    EXPECT_EQ(dealt.size(), 1008U);
    EXPECT_EQ(memo.made(), epoch + 1);
  }
}

TEST(SamplerAlgebraTest, SeedsThatDrawTheSamePermutationShareIt) {
  CountingMemo memo;
  const auto first_of = [&](std::int64_t size, std::int64_t seed, std::int64_t epoch) {
    DistributedSampler sampler = DistributedSampler::make({.size = size, .seed = seed}).value();
    sampler.set_epoch(epoch);
    Indices indices;
    sampler.indices(indices, &memo);
    return indices;
  };

  const Indices order = first_of(50, 1, 2);
  EXPECT_EQ(first_of(50, 3, 0), order);  // The generator's seed is the sum
  EXPECT_EQ(first_of(50, (std::int64_t{1} << 32U) + 3, 0), order);  // modulo 2^32.
  EXPECT_EQ(memo.made(), 1);
  EXPECT_NE(first_of(50, 4, 0), order);
  EXPECT_NE(first_of(51, 3, 0), order);
  EXPECT_EQ(memo.made(), 3);
}

}  // namespace
}  // namespace lockstep::data
