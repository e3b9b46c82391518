// The wait-for graph as a value and as pictures.
#include <gmock/gmock.h>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/sim/group/group_fixture.h"

namespace lockstep::sim {
namespace {

using testing::at;
using testing::GroupRun;
using ::testing::HasSubstr;
using testing::ones;
using testing::run_groups;
using State = WaitForNode::State;

std::vector<Rank> ranks(std::initializer_list<std::int32_t> numbers) {
  std::vector<Rank> result;
  for (const std::int32_t number : numbers) result.push_back(Rank{number});
  return result;
}

TEST(WaitForTest, RanksThatWaitForTheSameAreOneNode) {
  const GroupRun run = run_groups({.n_ranks = 5}, [](ProcessGroup& group, RankHandle&) {
    const Tensor data = ones(group, 2);
    if (group.rank() == 3) return;
    if (group.rank() == 4) return (void)group.recv(Memory::of(data), 0, 7, at("p2p.cc", 9)).wait();
    (void)group.barrier(at("train.cc", 5)).wait();
  });
  const WaitForGraph& graph = run.wait_for;
  ASSERT_EQ(graph.nodes.size(), 3U);
  EXPECT_EQ(graph.nodes[0].ranks, ranks({0, 1, 2}));
  EXPECT_EQ(graph.nodes[0].what, "barrier #0 of group 0 at train.cc:5");
  EXPECT_EQ(graph.nodes[1].ranks, ranks({4}));
  EXPECT_EQ(graph.nodes[2].state, State::kEnded);
  EXPECT_EQ(graph.nodes[2].ranks, ranks({3}));
  ASSERT_EQ(graph.edges.size(), 3U);
  // 0-2 -> 4 -> 0 is a cycle; 0-2 -> 3 leads nowhere.
  EXPECT_EQ(graph.edges[0].to, 1U);
  EXPECT_TRUE(graph.edges[0].in_cycle);
  EXPECT_EQ(graph.edges[1].to, 2U);
  EXPECT_FALSE(graph.edges[1].in_cycle);
  EXPECT_EQ(graph.edges[2].from, 1U);
  EXPECT_EQ(graph.edges[2].ranks, ranks({0}));
  EXPECT_TRUE(graph.edges[2].in_cycle);
}

TEST(WaitForTest, ASpinningRankIsLateNotMissing) {
  const GroupRun run = run_groups({.n_ranks = 2, .livelock_points = 1'000},
                                  [](ProcessGroup& group, RankHandle& rank) {
                                    if (group.rank() == 0)
                                      (void)group.barrier(at("train.cc", 5)).wait();
                                    for (;;) rank.point({});
                                  });
  EXPECT_TRUE(run.world.livelock);
  EXPECT_EQ(run.explanation,
            "rank 0 waits for barrier #0 of group 0 at train.cc:5; late: rank 1, which is spinning "
            "without making progress\n");
  EXPECT_EQ(run.missing, std::vector<std::int32_t>{1});
  EXPECT_EQ(run.wait_for.nodes[1].state, State::kRunning);
}

WaitForGraph two_that_wait() {
  WaitForGraph graph;
  graph.nodes = {{State::kWaits, "send \"a\" <1>", ranks({0, 1, 2, 5}), false},
                 {State::kDied, "threw: out & over", ranks({3}), false}};
  graph.edges = {{0, 1, ranks({3}), false}};
  return graph;
}

TEST(WaitForTest, TextForGraphvizIsQuoted) {
  EXPECT_EQ(render_dot(two_that_wait()),
            "digraph wait_for {\n"
            "  node [shape=box, style=filled];\n"
            "  n0 [fillcolor=\"#fff3cd\", label=\"ranks 0-2, 5\\nsend \\\"a\\\" <1>\"];\n"
            "  n1 [fillcolor=\"#f8d7da\", label=\"rank 3\\nthrew: out & over\"];\n"
            "  n0 -> n1;\n"
            "}\n");
  EXPECT_EQ(render_dot({}), "");
}

TEST(WaitForTest, ThePictureIsOneFileOfEscapedText) {
  const std::string svg = render_svg(two_that_wait(), "A < B");
  EXPECT_EQ(svg.rfind("<svg xmlns=", 0), 0U);
  EXPECT_THAT(svg, HasSubstr(">A &lt; B<"));
  EXPECT_THAT(svg, HasSubstr(">send &quot;a&quot; &lt;1&gt;<"));
  EXPECT_THAT(svg, HasSubstr(">threw: out &amp; over<"));
  EXPECT_THAT(svg, HasSubstr("<path d="));
  EXPECT_THAT(render_svg({}, "Fine"), HasSubstr("no rank waits"));
}

TEST(WaitForTest, ThousandsOfQuestionsStayAPicture) {
  const GroupRun run = run_groups({.n_ranks = 2'000}, [](ProcessGroup& group, RankHandle&) {
    const Tensor data = ones(group, 1);
    const std::int32_t next = (group.rank() + 1) % group.size();
    (void)group.recv(Memory::of(data), next, 0, at("ring.cc", 3)).wait();
  });
  EXPECT_EQ(run.wait_for.nodes.size(), WaitForGraph::kMaxNodes);
  EXPECT_EQ(run.wait_for.n_left_out, 2'000 - WaitForGraph::kMaxNodes);
  EXPECT_THAT(run.explanation, HasSubstr("... and 1952 more ranks wait"));
}

}  // namespace
}  // namespace lockstep::sim
