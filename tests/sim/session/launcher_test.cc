// What a launcher says to each rank of a simulated world of several nodes.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/sim/session/session.h"

namespace lockstep::sim {
namespace {

/// Each rank's LOCAL_RANK and GROUP_RANK.
std::vector<std::string> places(const SessionOptions& options) {
  std::vector<std::string> all(static_cast<std::size_t>(options.n_ranks));
  Session session;
  const auto result = session.run(options, [&](RankContext& rank) {
    const auto said = [&](std::string_view name) {
      return rank.host().environment(name).value_or("none");
    };
    all[static_cast<std::size_t>(rank.rank())] = said("LOCAL_RANK") + "@" + said("GROUP_RANK");
  });
  EXPECT_TRUE(result.ok());
  return all;
}

SessionOptions two_nodes() {
  SessionOptions options;
  options.n_ranks = 4;
  options.group.net.ranks_per_node = 2;
  return options;
}

TEST(LauncherTest, RanksAreCountedOnTheirNodeAndNodesInTheWorld) {
  EXPECT_EQ(places(two_nodes()), (std::vector<std::string>{"0@0", "1@0", "0@1", "1@1"}));
}

TEST(LauncherTest, TheCallersWordsGoBeforeThoseOfTheNodes) {
  SessionOptions options = two_nodes();
  options.environment = {{1, "LOCAL_RANK", "0"}, {3, "GROUP_RANK", "0"}};
  EXPECT_EQ(places(options), (std::vector<std::string>{"0@0", "0@0", "0@1", "1@0"}));
}

}  // namespace
}  // namespace lockstep::sim
