// Index for index against PyTorch's samplers; the file says which version.
#include <gtest/gtest.h>

#include "lockstep/data/distributed_sampler.h"
#include "lockstep/data/random_sampler.h"
#include "lockstep/data/split.h"

#include "tests/golden/golden_file.h"

namespace lockstep::data {
namespace {

std::vector<golden::Case> cases_of(const std::string& kind) {
  std::vector<golden::Case> cases;
  for (golden::Case& one : golden::read("sampler.txt")) {
    if (one.kind == kind) cases.push_back(std::move(one));
  }
  return cases;
}

TEST(SamplerGoldenTest, DistributedSamplerEqualsTorch) {
  const std::vector<golden::Case> cases = cases_of("distributed");
  EXPECT_GE(cases.size(), 600U);
  for (const golden::Case& one : cases) {
    Result<DistributedSampler> sampler = DistributedSampler::make({.size = one.integer(0),
                                                                   .replicas = one.integer(1),
                                                                   .rank = one.integer(2),
                                                                   .shuffle = one.flag(5),
                                                                   .seed = one.integer(4),
                                                                   .drop_last = one.flag(6)});
    ASSERT_TRUE(sampler.ok()) << one.text();
    sampler.value().set_epoch(one.integer(3));
    std::vector<std::int64_t> indices;
    sampler.value().indices(indices);
    EXPECT_EQ(golden::listed(indices), one.values) << one.text();
  }
}

TEST(SamplerGoldenTest, RandomSamplerEqualsTorchOverEpochs) {
  const std::vector<golden::Case> cases = cases_of("random");
  EXPECT_EQ(cases.size(), 42U);
  Generator outer;
  for (const golden::Case& one : cases) {
    if (one.integer(4) == 0) outer.manual_seed(static_cast<std::uint64_t>(one.integer(0)));
    const Result<std::vector<std::int64_t>> order = random_order(
        outer, {.size = one.integer(1), .count = one.integer(3), .replacement = one.flag(2)});
    ASSERT_TRUE(order.ok());
    EXPECT_EQ(golden::listed(order.value()), one.values) << one.text();
  }
}

TEST(SamplerGoldenTest, HoldoutSplitEqualsTorchsRandomSplit) {
  std::size_t compared = 0;
  for (const char* part : {"train", "holdout"}) {
    for (const golden::Case& one : cases_of(part)) {
      const Result<Split> split = holdout_split(one.integer(0), one.integer(1), one.integer(2));
      ASSERT_TRUE(split.ok());
      const Split& ids = split.value();
      EXPECT_EQ(golden::listed(one.kind == "train" ? ids.train : ids.holdout), one.values)
          << one.text();
      ++compared;
    }
  }
  EXPECT_EQ(compared, 24U);
}

}  // namespace
}  // namespace lockstep::data
