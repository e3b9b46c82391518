// Groups that their members open by name.
#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/sim/group/group_fixture.h"

namespace lockstep::sim {
namespace {

/// The ids of groups of both ranks, which both open in this order.
std::map<std::string, std::int32_t> ids_of(const std::vector<std::string>& names) {
  std::map<std::string, std::int32_t> ids;
  World world;
  SimGroups groups(world, {});
  const auto cpu = make_cpu_kernels();
  Pool pool;
  const WorldResult result =
      world.run({.n_ranks = 2}, *make_round_robin(), [&](RankHandle& handle) {
        Runtime runtime(pool, *cpu, handle);
        constexpr std::array<std::int32_t, 2> kBoth = {0, 1};
        for (const std::string& name : names) {
          const auto group = groups.open(handle, runtime, name, kBoth);
          ASSERT_TRUE(group.ok()) << group.error().text();
          const auto [known, is_new] = ids.try_emplace(name, group.value()->id());
          EXPECT_TRUE(is_new || known->second == group.value()->id()) << name;
        }
      });
  EXPECT_FALSE(result.first_failure);
  return ids;
}

TEST(NamedGroupsTest, AnIdFollowsFromTheNameAndNotFromTheOrderOfOpening) {
  const std::map<std::string, std::int32_t> ids = ids_of({"evens", "odds", "all"});
  EXPECT_EQ(ids_of({"all", "odds", "evens"}), ids);
  std::set<std::int32_t> different;
  for (const auto& [name, id] : ids) different.insert(id);
  EXPECT_EQ(different.size(), 3U);
}

TEST(NamedGroupsTest, ASmallNumberIsItsOwnId) {
  EXPECT_EQ(ids_of({"7"}), (std::map<std::string, std::int32_t>{{"7", 7}}));
}

}  // namespace
}  // namespace lockstep::sim
