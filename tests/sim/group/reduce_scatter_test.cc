// The parts of a reduce_scatter, bit for bit.
#include <vector>

#include <gtest/gtest.h>

#include "tests/sim/group/group_fixture.h"

namespace lockstep::sim {
namespace {

using testing::run_groups;

constexpr std::int64_t kPartSize = 31;

Tensor fractions(ProcessGroup& group) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < kPartSize * group.size(); ++i) {
    values.push_back(1.0 / static_cast<double>(3 + (7 * i + 13 * group.rank()) % 101));
  }
  return Tensor::of(group.runtime(), {kPartSize * group.size()}, DType::kF32, values);
}

// How many elements of the reduced parts differ from those of an all_reduce of everything.
std::int64_t n_different(const ReductionOrder& order) {
  std::int64_t n = 0;
  run_groups({.n_ranks = 5, .group = {.order = order}}, [&](ProcessGroup& group, RankHandle&) {
    const Tensor whole = fractions(group);
    const Tensor input = fractions(group);
    const Tensor mine = testing::ones(group, kPartSize);
    EXPECT_EQ(group.all_reduce(Memory::of(whole)).wait(), CommStatus::kOk);
    EXPECT_EQ(group.reduce_scatter_tensor(Memory::of(mine), Memory::of(input)).wait(),
              CommStatus::kOk);
    for (std::int64_t i = 0; i < kPartSize; ++i) {
      if (mine.at(i) != whole.at(group.rank() * kPartSize + i)) ++n;
    }
  });
  return n;
}

// Gloo cuts its chunks from the whole buffer, parts or not.
TEST(ReduceScatterTest, GloosRingGivesTheBitsOfAnAllReduce) {
  EXPECT_EQ(n_different(ReductionOrder::kGlooRing), 0);
  EXPECT_EQ(n_different(ReductionOrder::kRank), 0);
  EXPECT_EQ(n_different(ReductionOrder::kPairwise), 0);
}

// NCCL's rings end at the part's owner: chunks of an all_reduce are cut elsewhere.
TEST(ReduceScatterTest, NcclsReductionOrdersGiveOtherBits) {
  EXPECT_GT(n_different(ReductionOrder::kNcclRing), 0);
  EXPECT_GT(n_different(ReductionOrder::kNcclTree), 0);
}

}  // namespace
}  // namespace lockstep::sim
