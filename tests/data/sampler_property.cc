#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "lockstep/data/batch_sampler.h"
#include "lockstep/data/distributed_sampler.h"
#include "lockstep/data/split.h"

#include "tests/data/fake_host.h"
#include "tests/data/sampler_laws.h"

namespace lockstep::data {
namespace {

DistributedSamplerOptions any_options() {
  DistributedSamplerOptions options;
  options.size = *rc::gen::inRange<std::int64_t>(0, 300);
  options.replicas = *rc::gen::inRange<std::int64_t>(1, 40);
  options.shuffle = *rc::gen::arbitrary<bool>();
  options.seed = *rc::gen::arbitrary<std::int64_t>();
  options.drop_last = *rc::gen::arbitrary<bool>();
  return options;
}

Epoch epoch_of(DistributedSamplerOptions options, std::int64_t number) {
  CountingMemo memo;
  Epoch epoch{.size = options.size, .drop_last = options.drop_last, .streams = {}};
  for (options.rank = 0; options.rank < options.replicas; ++options.rank) {
    DistributedSampler sampler = DistributedSampler::make(options).value();
    sampler.set_epoch(number);
    epoch.streams.emplace_back();
    sampler.indices(epoch.streams.back(), &memo);
  }
  return epoch;
}

RC_GTEST_PROP(SamplerProperty, EveryLawHoldsInEveryEpoch, (std::int64_t number)) {
  RC_ASSERT(broken_law(epoch_of(any_options(), number)).empty());
}

RC_GTEST_PROP(SamplerProperty, InterleavingTheRanksReproducesTheOrder, (std::int64_t number)) {
  const DistributedSamplerOptions options = any_options();
  DistributedSampler sampler = DistributedSampler::make(options).value();
  sampler.set_epoch(number);
  Indices order;
  sampler.global_order(order);
  RC_ASSERT(interleaved(epoch_of(options, number)) == order);
}

// 30 samples have 30! orders: that two epochs agree by chance cannot happen.
RC_GTEST_PROP(SamplerProperty, AnotherEpochIsAnotherOrder, (std::int64_t seed)) {
  const auto first = *rc::gen::inRange<std::int64_t>(0, 1000);
  const auto second = *rc::gen::distinctFrom(rc::gen::inRange<std::int64_t>(0, 1000), first);
  const DistributedSamplerOptions options{.size = 30, .replicas = 3, .seed = seed};
  RC_ASSERT(interleaved(epoch_of(options, first)) != interleaved(epoch_of(options, second)));
}

RC_GTEST_PROP(SamplerProperty, WithoutShufflingEpochsAreEqual, (std::int64_t number)) {
  DistributedSamplerOptions options = any_options();
  options.shuffle = false;
  RC_ASSERT(interleaved(epoch_of(options, number)) == interleaved(epoch_of(options, 0)));
}

RC_GTEST_PROP(SamplerProperty, BatchesTogetherAreTheSamples, ()) {
  const auto samples = *rc::gen::arbitrary<Indices>();
  const auto batch_size = *rc::gen::inRange<std::int64_t>(1, 20);
  const bool drop_last = *rc::gen::arbitrary<bool>();
  const BatchSampler batches = BatchSampler::make(batch_size, drop_last).value();
  const auto n = static_cast<std::int64_t>(samples.size());

  Indices joined;
  for (std::int64_t k = 0; k < batches.length(n); ++k) {
    const auto batch = batches.batch(samples, k);
    RC_ASSERT(!batch.empty());
    RC_ASSERT(!drop_last || static_cast<std::int64_t>(batch.size()) == batch_size);
    joined.insert(joined.end(), batch.begin(), batch.end());
  }

  RC_ASSERT(samples.size() - joined.size() <
            (drop_last ? static_cast<std::size_t>(batch_size) : 1));
  RC_ASSERT(std::equal(joined.begin(), joined.end(), samples.begin()));
}

RC_GTEST_PROP(SplitProperty, TrainAndHoldoutPartitionTheSamples, (std::int64_t seed)) {
  const auto size = *rc::gen::inRange<std::int64_t>(0, 200);
  const auto holdout = *rc::gen::inRange<std::int64_t>(0, size + 1);
  const Split split = holdout_split(size, holdout, seed).value();
  RC_ASSERT(static_cast<std::int64_t>(split.holdout.size()) == holdout);
  // Dealt to one rank, both parts one after the other must be the whole data set once.
  Epoch epoch{.size = size, .drop_last = false, .streams = {split.train}};
  epoch.streams[0].insert(epoch.streams[0].end(), split.holdout.begin(), split.holdout.end());
  RC_ASSERT(broken_law(epoch).empty());
}

}  // namespace
}  // namespace lockstep::data
