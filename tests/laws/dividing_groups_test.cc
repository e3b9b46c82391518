// Which group of ranks a sampler divides a data set among.
#include <gtest/gtest.h>

#include "lockstep/laws/rules/detail/samples/pass_parts.h"

namespace lockstep::laws {
namespace {

/// Rank 2 of four has wrapped a model over the pair 7, and another one over the pair 8.
class DividingGroupsTest : public ::testing::Test {
 protected:
  DividingGroupsTest() {
    wrap(0, 7, 2);
    wrap(1, 8, 2);
  }

  void wrap(std::int32_t wrapper, std::int32_t group, std::int32_t n_ranks) {
    Event event;
    event.rank = Rank{2};
    event.at.wrapper = wrapper;
    groups_.on_wrap(event, {.group = group, .n_ranks = n_ranks}, worlds_);
  }

  std::int32_t of(WrapperKey trains, std::int64_t n_replicas = 2, std::int32_t rank = 2) const {
    return groups_.of(trains, rank, {.n_replicas = n_replicas});
  }

  Worlds worlds_{4};
  DividingGroups groups_;
};

TEST_F(DividingGroupsTest, TheWrapperThatTrainsSaysWhichGroupItIs) {
  EXPECT_EQ(of({0, 0}), 7);
  EXPECT_EQ(of({0, 1}), 8);
  EXPECT_EQ(of({0, -1}), -1) << "it may be either";
}

TEST_F(DividingGroupsTest, WithoutAWrapperTheOnlyGroupOfThatSizeCounts) {
  wrap(2, 9, 3);
  EXPECT_EQ(of({0, -1}, 3), 9);
  EXPECT_EQ(of({1, -1}, 3), -1) << "of another attempt";
}

TEST_F(DividingGroupsTest, OtherRanksAttemptsAndNumbersOfReplicasAreOtherMatters) {
  EXPECT_EQ(of({0, 0}, 2, 3), -1);
  EXPECT_EQ(of({1, 0}), -1);
  EXPECT_EQ(of({0, 0}, 4), -1);
}

TEST_F(DividingGroupsTest, TheWorldIsNoGroup) {
  DividingGroups none;
  Event event;
  event.at.wrapper = 0;
  none.on_wrap(event, {.group = 0, .n_ranks = 4}, worlds_);
  EXPECT_FALSE(none.any());
  EXPECT_TRUE(groups_.any());
}

}  // namespace
}  // namespace lockstep::laws
