// What errors say when a contract of simulated groups and worlds is broken: the values.
#include <array>

#include <gtest/gtest.h>

#include "lockstep/sim/net/links.h"

#include "tests/sim/group/group_fixture.h"
#include "tests/support/complaint.h"

namespace lockstep::sim {
namespace {

using lockstep::testing::complaint_of;
using lockstep::testing::expect_complaints;
using testing::run_groups;

TEST(SimGroupContractsTest, NameTheRankAndTheGroup) {
  run_groups({.n_ranks = 3}, [](ProcessGroup& group, RankHandle& /*rank*/) {
    if (group.rank() != 1) return;
    const std::array<std::int32_t, 3> twice = {0, 2, 2};
    expect_complaints({
        {[&] { (void)group.world_rank(3); }, "no rank 3 in group 0: it has 3 ranks"},
        {[&] { (void)group.world_rank(-1); }, "no rank -1 in group 0: it has 3 ranks"},
        {[&] { (void)group.split(twice); },
         "a new group of ranks 0, 2, 2 lists a rank twice: members must be distinct"},
    });
    EXPECT_EQ(complaint_of([&] { (void)group.world_rank(2); }), "(no contract was broken)");
  });
}

TEST(SimWorldContractsTest, NameTheNumbers) {
  World world;
  const auto nothing = [](RankHandle& /*rank*/) {};

  expect_complaints({
      {[&] { world.run({.n_ranks = 0}, *make_round_robin(), nothing); },
       "a world of 0 ranks: it has at least one"},
      {[&] {
         testing::GroupRunOptions options{.n_ranks = 2};
         options.group.order = ReductionOrder(std::vector<std::vector<std::int32_t>>{{0, 1, 2}});
         const testing::GroupRun run =
             run_groups(options, [](ProcessGroup& /*group*/, RankHandle& /*rank*/) {});
         std::rethrow_exception(
             run.world.ends[static_cast<std::size_t>(run.world.first_failure.value())].exception);
       },
       "the rings of 'nccl-ring:0,1,2' do not name the ranks of this world, which has 2"},
      {[] { Links({.intra = {.latency_ns = -5}}, 2); },
       "a link's latency, jitter and bandwidth are not negative: -5 ns, 0 ns, 0 GB/s"},
  });
}

}  // namespace
}  // namespace lockstep::sim
