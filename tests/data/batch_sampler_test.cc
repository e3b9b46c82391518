#include "lockstep/data/batch_sampler.h"

#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/check.h"
#include "lockstep/data/random_sampler.h"
#include "lockstep/data/split.h"

namespace lockstep::data {
namespace {

std::vector<std::vector<std::int64_t>> batches_of(std::int64_t samples,
                                                  std::int64_t batch_size,
                                                  bool drop_last) {
  const std::vector<std::int64_t> order = sequential_order(samples);
  const BatchSampler sampler = BatchSampler::make(batch_size, drop_last).value();
  std::vector<std::vector<std::int64_t>> batches;
  for (std::int64_t k = 0; k < sampler.length(samples); ++k) {
    const auto batch = sampler.batch(order, k);
    batches.emplace_back(batch.begin(), batch.end());
  }
  return batches;
}

using Batches = std::vector<std::vector<std::int64_t>>;

TEST(BatchSamplerTest, KeepsAShortTail) {
  EXPECT_EQ(batches_of(5, 2, false), (Batches{{0, 1}, {2, 3}, {4}}));
}

TEST(BatchSamplerTest, DropsAShortTailWhenAsked) {
  EXPECT_EQ(batches_of(5, 2, true), (Batches{{0, 1}, {2, 3}}));
  EXPECT_EQ(batches_of(4, 2, true), (Batches{{0, 1}, {2, 3}}));
}

TEST(BatchSamplerTest, NoSamplesMakeNoBatch) {
  EXPECT_EQ(batches_of(0, 3, false), Batches{});
  EXPECT_EQ(batches_of(2, 3, true), Batches{});
}

TEST(BatchSamplerTest, BatchSizesBelowOneAreRefusedInPyTorchsWords) {
  EXPECT_EQ(BatchSampler::make(0).error().text(),
            "batch_size should be a positive integer value, but got batch_size=0");
  EXPECT_EQ(BatchSampler::make(-3).error().text(),
            "batch_size should be a positive integer value, but got batch_size=-3");
}

TEST(BatchSamplerTest, ABatchBeyondTheLastIsAContractViolation) {
  const std::vector<std::int64_t> order = sequential_order(4);
  const BatchSampler sampler = BatchSampler::make(2).value();
  EXPECT_THROW(static_cast<void>(sampler.batch(order, 2)), ContractViolation);
  EXPECT_THROW(static_cast<void>(sampler.batch(order, -1)), ContractViolation);
}

TEST(RandomSamplerTest, CountsBelowOneAreRefusedInPyTorchsWords) {
  Generator outer(1);
  EXPECT_EQ(random_order(outer, {.size = 5, .count = 0}).error().text(),
            "num_samples should be a positive integer value, but got num_samples=0");
  EXPECT_FALSE(random_order(outer, {.size = 0, .count = 5}).ok());
}

TEST(RandomSamplerTest, TakesTwoDrawsOfTheOuterGenerator) {
  Generator outer(5);
  ASSERT_TRUE(random_order(outer, {.size = 100, .count = 100}).ok());
  Generator model(5);
  model.random64();
  EXPECT_EQ(outer.random(), model.random());
}

TEST(SplitTest, HoldsOutTheEndOfThePermutation) {
  // randperm(10) with seed 0 is 4 1 7 5 3 9 0 8 6 2.
  const Split split = holdout_split(10, 3, 0).value();
  EXPECT_EQ(split.train, (std::vector<std::int64_t>{4, 1, 7, 5, 3, 9, 0}));
  EXPECT_EQ(split.holdout, (std::vector<std::int64_t>{8, 6, 2}));
}

TEST(SplitTest, AHoldoutBeyondTheDataIsRefused) {
  EXPECT_EQ(holdout_split(5, 6, 0).error().text(), "cannot hold out 6 of 5 samples");
  EXPECT_FALSE(holdout_split(5, -1, 0).ok());
  EXPECT_FALSE(holdout_split(-5, 0, 0).ok());
}

}  // namespace
}  // namespace lockstep::data
