// Groups that ranks make: collectives-match on streams written by hand.
#include <gmock/gmock.h>

#include <gtest/gtest.h>

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;

/// Each rank says of one group which ranks it has; an empty list: it has made none.
LawResult groups_made(const std::vector<std::vector<std::int32_t>>& lists,
                      std::int32_t number = 1) {
  testing::EventStream stream(static_cast<std::int32_t>(lists.size()));
  for (std::int32_t rank = 0; rank < stream.n_ranks(); ++rank) {
    const std::vector<std::int32_t>& members = lists[static_cast<std::size_t>(rank)];
    if (!members.empty()) stream.add(rank, GroupEvent{.group = number, .members = members});
  }
  return check("collectives-match", stream);
}

// A number is given by a counter of each rank, so a rank that leaves a group out has other groups from there on.
TEST(CollectivesMatchTest, RanksThatMakeDifferentGroupsUnderOneNumberAreReported) {
  const LawResult result = groups_made({{0, 3}, {1, 2}, {1, 2}, {0, 3}, {0, 3}});
  ASSERT_EQ(result.findings.size(), 1U);
  const Finding& finding = result.findings[0];
  EXPECT_EQ(finding.event, "group");
  EXPECT_EQ(finding.field, "members");
  EXPECT_EQ(finding.group, 1);
  EXPECT_EQ(finding.ranks, (std::vector<Rank>{Rank{1}, Rank{2}}));
  EXPECT_EQ(id_of(finding.cause), "subgroup-on-some-ranks");
  EXPECT_THAT(
      finding.message,
      ::testing::HasSubstr(
          "ranks 0, 3, 4 created one of ranks 0, 3 where ranks 1, 2 created one of ranks 1, 2"));
}

TEST(CollectivesMatchTest, TheLaterRanksOfTwoEqualSidesAreNamed) {
  const LawResult result = groups_made({{0, 3}, {1, 2}, {1, 2}, {0, 3}});
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].ranks, (std::vector<Rank>{Rank{1}, Rank{2}}));
}

TEST(CollectivesMatchTest, AGroupThatItsMembersAgreeAboutIsFine) {
  EXPECT_TRUE(groups_made({{0, 2}, {}, {0, 2}, {}}).findings.empty());
}

// A program that leaves its world and joins one again counts from the beginning.
TEST(CollectivesMatchTest, TheNthGroupOfANumberIsComparedWithTheNth) {
  testing::EventStream stream(2);
  const std::vector<std::int32_t> both = {0, 1};
  const std::vector<std::int32_t> turned = {1, 0};
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    stream.add(rank, GroupEvent{.group = 1, .members = both});
    stream.add(rank, GroupEvent{.group = 1, .members = turned});
  }
  EXPECT_TRUE(check("collectives-match", stream).findings.empty());
  stream.add(0, GroupEvent{.group = 1, .members = both});
  stream.add(1, GroupEvent{.group = 1, .members = turned});
  EXPECT_EQ(check("collectives-match", stream).findings.size(), 1U);
}

}  // namespace
}  // namespace lockstep
