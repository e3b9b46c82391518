// What a warm world may not do, and what no schedule may change.
#include <algorithm>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "tests/sim/group/group_fixture.h"
#include "tests/support/count_allocations.h"

namespace lockstep::sim {
namespace {

using testing::run_groups;

TEST(SteadyStateTest, AWarmAllReduceAllocatesNothing) {
  std::int64_t before = 0;
  std::int64_t after = 0;
  run_groups({.n_ranks = 16}, [&](ProcessGroup& group, RankHandle& rank) {
    const Tensor data = testing::ones(group, 256);
    for (int i = 0; i < 200; ++i) {
      if (i == 100 && rank.rank() == Rank{0}) before = lockstep::testing::n_allocations();
      if (group.all_reduce(Memory::of(data)).wait() != CommStatus::kOk) return;
      if (i == 190 && rank.rank() == Rank{0}) after = lockstep::testing::n_allocations();
    }
  });
  EXPECT_EQ(after, before);
  EXPECT_GT(after, 0);  // The counter counts.
}

// Ranks arrive in every order; the bits of a sum that rounds stay the same.
TEST(SteadyStateTest, EveryOrderOfArrivalGivesTheSameBits) {
  constexpr std::int32_t kArriving = 4;
  for (const ReductionOrder order :
       {ReductionOrder::kRank, ReductionOrder::kGlooRing, ReductionOrder::kPairwise}) {
    std::vector<float> expected;
    std::vector<std::int32_t> arrival = {0, 1, 2, 3};
    do {
      run_groups({.n_ranks = kArriving, .group = {.order = order}},
                 [&](ProcessGroup& group, RankHandle& rank) {
                   const auto place = std::find(arrival.begin(), arrival.end(), group.rank());
                   rank.sleep({1 + (place - arrival.begin())});
                   std::vector<float> data(33);
                   for (std::size_t i = 0; i < data.size(); ++i) {
                     data[i] = 1.0F / static_cast<float>(3 + i + 11 * to_index(rank.rank()));
                   }
                   EXPECT_EQ(group.all_reduce(Memory::of(std::span(data))).wait(), CommStatus::kOk);
                   if (expected.empty()) expected = data;
                   EXPECT_EQ(std::memcmp(expected.data(), data.data(), 33 * sizeof(float)), 0);
                 });
    } while (std::next_permutation(arrival.begin(), arrival.end()));
  }
}

TEST(SteadyStateTest, ARecordedScheduleOfCollectivesReplays) {
  const auto trace = [](Strategy& strategy) {
    std::vector<std::int32_t> log;
    run_groups({.n_ranks = 5}, strategy, [&](ProcessGroup& group, RankHandle& rank) {
      const Tensor data = testing::ones(group, 8);
      for (int i = 0; i < 5; ++i) {
        const Work work = group.all_reduce(Memory::of(data));
        log.push_back(group.rank());
        rank.point({});
        EXPECT_EQ(work.wait(), CommStatus::kOk);
        log.push_back(10 + group.rank());
      }
    });
    return log;
  };
  const auto random = make_random(9);
  const auto recording = make_recording(*random);
  const std::vector<std::int32_t> first = trace(*recording);
  const auto replay = make_replay(decode_schedule(encode_schedule(recording->schedule())).value());
  EXPECT_EQ(trace(*replay.value()), first);
  EXPECT_TRUE(replay.value()->skipped().empty());
  EXPECT_NE(trace(*make_random(10)), first);
}

}  // namespace
}  // namespace lockstep::sim
