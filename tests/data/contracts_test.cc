// What errors say when a contract of data is broken: the values.
#include <array>

#include <gtest/gtest.h>

#include "lockstep/data/batch_sampler.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/random_sampler.h"
#include "lockstep/data/sampler.h"

#include "tests/support/complaint.h"

namespace lockstep::data {
namespace {

TEST(DataContractsTest, SayWhichSampleOrBatchWasAskedFor) {
  const Dataset rows =
      Dataset::make({.size = 2, .feature_columns = 2, .features = {1, 2, 3, 4}}).value();
  const BatchSampler batches = BatchSampler::make(2, true).value();
  const std::array<std::int64_t, 5> samples = {0, 1, 2, 3, 4};
  const std::array<std::int64_t, 1> first = {0};
  std::array<float, 3> three{};

  testing::expect_complaints({
      {[&] { (void)rows.features(2); }, "no sample 2: the data set has 2"},
      {[&] { (void)rows.features(-1); }, "no sample -1: the data set has 2"},
      {[&] { rows.gather_features(first, three); },
       "a buffer of 3 values for 1 samples of 2: it needs 2"},
      {[&] { (void)batches.batch(samples, 2); }, "no batch 2: 5 samples make 2 batches of 2"},
      {[&] { sequential_order(-3); }, "an order of -3 samples: a size is never negative"},
      {[&] { SequentialSampler(-3); }, "an order of -3 samples: a size is never negative"},
  });
}

}  // namespace
}  // namespace lockstep::data
