// Operations whose memory goes before they have ended, as a wrapper's does where an exception passes.
#include <vector>

#include <gtest/gtest.h>

#include "tests/sim/group/group_fixture.h"

namespace lockstep::sim {
namespace {

using testing::GroupRun;
using testing::run_groups;
using Floats = std::vector<float>;

constexpr std::int32_t kWrapper = 3;

Work sum_of(ProcessGroup& group, Floats& values) {
  return group.all_reduce(Memory::of(std::span(values)),
                          ReduceOp::kSum,
                          {.site = CallSite::here(), .wrapper = kWrapper});
}

/// Rank 1 posts last, abandons what this wrapper has posted, and uses the memory for something else. What each rank has
/// then, and what rank 1 had in between.
struct Abandoned {
  Floats of_rank_0 = {1.0F, 2.0F};
  Floats of_rank_1 = {10.0F, 20.0F};
  Floats between;
};

Abandoned abandoned(std::int32_t wrapper) {
  Abandoned result;
  bool posted = false;
  const GroupRun run = run_groups({}, [&](ProcessGroup& group, RankHandle& handle) {
    if (group.rank() == 0) {
      const Work work = sum_of(group, result.of_rank_0);
      posted = true;
      work.wait_or_throw();
    } else {
      while (!posted) handle.point({});
      const Work work = sum_of(group, result.of_rank_1);
      group.abandon(wrapper);
      result.between = result.of_rank_1;
      if (wrapper == kWrapper) result.of_rank_1 = {-1.0F, -1.0F};
      if (wrapper != kWrapper) work.wait_or_throw();
    }
    group.barrier().wait_or_throw();
  });
  EXPECT_FALSE(run.world.stuck);
  return result;
}

TEST(AbandonedTest, WhatAllHavePostedEndsBeforeItsMemoryGoes) {
  const Abandoned result = abandoned(kWrapper);
  EXPECT_EQ(result.between, (Floats{11.0F, 22.0F}));
  EXPECT_EQ(result.of_rank_0, (Floats{11.0F, 22.0F}));
  EXPECT_EQ(result.of_rank_1, (Floats{-1.0F, -1.0F})) << "nothing is written later";
}

TEST(AbandonedTest, WhatAnotherWrapperHasPostedGoesOn) {
  const Abandoned result = abandoned(kWrapper + 1);
  EXPECT_EQ(result.between, (Floats{10.0F, 20.0F})) << "not yet";
  EXPECT_EQ(result.of_rank_1, (Floats{11.0F, 22.0F}));
}

TEST(AbandonedTest, WhatIsNotPostedByAllNeverWritesThere) {
  Floats of_rank_0 = {1.0F};
  Floats of_rank_1 = {10.0F};
  bool abandoned = false;
  const GroupRun run = run_groups({}, [&](ProcessGroup& group, RankHandle& handle) {
    if (group.rank() == 0) {
      while (!abandoned) handle.point({});
      sum_of(group, of_rank_0).wait_or_throw();
    } else {
      const Work work = sum_of(group, of_rank_1);
      group.abandon(kWrapper);
      EXPECT_EQ(work.wait(), CommStatus::kAborted);
      of_rank_1 = {-1.0F};
      abandoned = true;
    }
  });
  EXPECT_TRUE(run.world.stuck);
  EXPECT_EQ(of_rank_1, Floats{-1.0F});
}

}  // namespace
}  // namespace lockstep::sim
