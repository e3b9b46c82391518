// An all-gather into one buffer, into a list, and into both.
#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "tests/sim/group/group_fixture.h"

namespace lockstep::sim {
namespace {

using testing::run_groups;

constexpr std::int32_t kRanks = 5;
constexpr std::size_t kPart = 3;

using Values = std::vector<std::int64_t>;

Values part_of(std::int32_t rank) { return {100 * rank, 100 * rank + 1, 100 * rank + 2}; }

Values all_parts() {
  Values all;
  for (std::int32_t rank = 0; rank < kRanks; ++rank) {
    for (const std::int64_t value : part_of(rank)) all.push_back(value);
  }
  return all;
}

Memory place_of(Values& all, std::int32_t rank) {
  return Memory::of(std::span(all).subspan(static_cast<std::size_t>(rank) * kPart, kPart));
}

CommStatus gather_into_list(ProcessGroup& group, Values& all, Values& mine) {
  std::vector<Memory> places;
  for (std::int32_t rank = 0; rank < kRanks; ++rank) places.push_back(place_of(all, rank));
  return group.all_gather(places, Memory::of(std::span(mine))).wait();
}

CommStatus gather_into_one(ProcessGroup& group, Values& all, Values& mine) {
  return group.all_gather_into_tensor(Memory::of(std::span(all)), Memory::of(std::span(mine)))
      .wait();
}

// What each rank has after `gather(group, all, mine)`.
template <typename Gather>
std::vector<Values> gathered(Gather gather) {
  std::vector<Values> of_ranks(kRanks);
  run_groups({.n_ranks = kRanks}, [&](ProcessGroup& group, RankHandle&) {
    Values all(kRanks * kPart, -1);
    Values mine = part_of(group.rank());
    EXPECT_EQ(gather(group, all, mine), CommStatus::kOk);
    EXPECT_EQ(mine, part_of(group.rank()));
    of_ranks[static_cast<std::size_t>(group.rank())] = all;
  });
  return of_ranks;
}

TEST(AllGatherTest, EachRankHasAllPartsInOneBuffer) {
  EXPECT_EQ(gathered(gather_into_one), std::vector<Values>(kRanks, all_parts()));
}

TEST(AllGatherTest, EachRankHasAllPartsInAList) {
  EXPECT_EQ(gathered(gather_into_list), std::vector<Values>(kRanks, all_parts()));
}

TEST(AllGatherTest, RanksWithABufferAndRanksWithAListMeet) {
  const auto of_both = gathered([](ProcessGroup& group, Values& all, Values& mine) {
    const bool has_list = group.rank() % 2 == 1;
    return has_list ? gather_into_list(group, all, mine) : gather_into_one(group, all, mine);
  });
  EXPECT_EQ(of_both, std::vector<Values>(kRanks, all_parts()));
}

TEST(AllGatherTest, APartMayLieAtItsPlaceInTheBuffer) {
  const auto in_place = gathered([](ProcessGroup& group, Values& all, Values& mine) {
    const Memory own = place_of(all, group.rank());
    std::copy(mine.begin(), mine.end(), static_cast<std::int64_t*>(own.data));
    return group.all_gather_into_tensor(Memory::of(std::span(all)), own).wait();
  });
  EXPECT_EQ(in_place, std::vector<Values>(kRanks, all_parts()));
}

}  // namespace
}  // namespace lockstep::sim
