// Operations that take time, and operations as messages.
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/sim/group/group_fixture.h"

namespace lockstep::sim {
namespace {

using testing::GroupRun;
using testing::run_groups;

constexpr LinkSpec kLink = {.latency_ns = 1000, .gb_per_s = 1.0};  // A byte a nanosecond.

GroupOptions with(const std::string& order, Fidelity fidelity, const NetOptions& net) {
  return {.order = parse_reduction_order(order).value(), .fidelity = fidelity, .net = net};
}

/// Ranks' answers to a series of collectives on numbers that round.
std::vector<std::vector<float>> answers(const GroupOptions& options,
                                        std::int32_t n_ranks,
                                        std::uint64_t seed) {
  std::vector<std::vector<float>> all(static_cast<std::size_t>(n_ranks));
  const GroupRun run = run_groups(
      {.n_ranks = n_ranks, .group = options},
      *make_random(seed),
      [&](ProcessGroup& group, RankHandle& rank) {
        std::vector<float>& mine = all[to_index(rank.rank())];
        const auto n = static_cast<std::size_t>(n_ranks);
        mine.resize(100 + 7 + 3 + 3 * n + 5);
        for (std::size_t i = 0; i < mine.size(); ++i) {
          mine[i] = static_cast<float>(i + 1) / static_cast<float>(3 * to_int(rank.rank()) + 7);
        }
        const std::span<float> data(mine);
        std::vector<float> parts(3 * n, mine[0]);
        std::vector<float> piece(3, mine[1]);
        std::vector<Work> works;
        works.push_back(group.all_reduce(Memory::of(data.subspan(0, 100))));
        works.push_back(group.all_reduce(Memory::of(data.subspan(100, 7)), ReduceOp::kAvg));
        works.push_back(group.reduce_scatter_tensor(Memory::of(data.subspan(107, 3)),
                                                    Memory::of(std::span(parts))));
        works.push_back(group.all_gather_into_tensor(Memory::of(data.subspan(110, 3 * n)),
                                                     Memory::of(std::span(piece))));
        works.push_back(group.broadcast(Memory::of(data.subspan(110 + 3 * n, 5)), n_ranks - 1));
        for (Work& work : works) EXPECT_EQ(work.wait(), CommStatus::kOk);
      });
  EXPECT_FALSE(run.world.stuck.has_value()) << run.explanation;
  return all;
}

TEST(FidelityTest, MessageAndRendezvousFidelityGiveTheSameBits) {
  NetOptions slow{.intra = kLink};
  slow.intra.jitter_ns = 300;
  slow.chunk_bytes = 64;
  for (const std::string order : {"rank", "gloo-ring", "pairwise", "nccl-ring@2", "nccl-tree"}) {
    for (std::int32_t n_ranks = 1; n_ranks <= 6; ++n_ranks) {
      const auto expected = answers(with(order, Fidelity::kRendezvous, {}), n_ranks, 1);
      const auto seed = static_cast<std::uint64_t>(n_ranks);
      EXPECT_EQ(answers(with(order, Fidelity::kMessage, {}), n_ranks, seed), expected) << order;
      EXPECT_EQ(answers(with(order, Fidelity::kMessage, slow), n_ranks, seed), expected) << order;
      EXPECT_EQ(answers(with(order, Fidelity::kRendezvous, slow), n_ranks, seed), expected)
          << order;
    }
  }
}

/// When each rank's waits ended, in ns, by rank.
using Times = std::vector<std::vector<std::int64_t>>;

// Two all-reduces of 4000 bytes at once over 4 ranks.
Times two_all_reduces(const GroupOptions& options, std::int64_t late_ns) {
  Times times(4);
  run_groups({.n_ranks = 4, .group = options}, [&](ProcessGroup& group, RankHandle& rank) {
    if (rank.rank() == Rank{2} && late_ns > 0) rank.sleep({late_ns});
    std::vector<float> first(1000, 1.0F);
    std::vector<float> second(1000, 2.0F);
    const Work a = group.all_reduce(Memory::of(std::span(first)));
    const Work b = group.all_reduce(Memory::of(std::span(second)));
    for (const Work& work : {a, b}) {
      EXPECT_EQ(work.wait(), CommStatus::kOk);
      times[to_index(rank.rank())].push_back(rank.now().ns);
    }
  });
  return times;
}

// Each takes 2 (4-1) (1000 + 4000/4) = 12000 ns alone; a group's transfers follow one another.
TEST(FidelityTest, ARendezvousTakesItsAlgorithmsTime) {
  const GroupOptions options = with("gloo-ring", Fidelity::kRendezvous, {.intra = kLink});
  EXPECT_EQ(two_all_reduces(options, 0), Times(4, {12'000, 24'000}));
}

// The second one's messages fill the pauses of the first: 6 x 4 x 1000 ns of transfers a port, and
// one round's latency and transfer before the last one leaves.
TEST(FidelityTest, MessagesOfTwoOperationsShareThePorts) {
  const GroupOptions options = with("gloo-ring", Fidelity::kMessage, {.intra = kLink});
  const Times times = two_all_reduces(options, 0);
  for (const auto& [first, second] :
       {std::pair(times[0][0], times[0][1]), std::pair(times[3][0], times[3][1])}) {
    EXPECT_GE(first, 12'000);
    EXPECT_GE(second, 12'000 + 1000);
    EXPECT_LT(second, 24'000);
  }
}

TEST(FidelityTest, AStragglerMakesAllRanksWait) {
  for (const Fidelity fidelity : {Fidelity::kRendezvous, Fidelity::kMessage}) {
    const GroupOptions options = with("gloo-ring", fidelity, {.intra = kLink});
    for (const auto& ends : two_all_reduces(options, 500'000)) {
      EXPECT_GT(ends[0], 500'000);
      EXPECT_LT(ends[1], 530'000);
    }
  }
}

TEST(FidelityTest, AMessageTakesLatencyAndTransfer) {
  const GroupOptions options = with("rank", Fidelity::kRendezvous, {.intra = kLink});
  run_groups({.group = options}, [](ProcessGroup& group, RankHandle& rank) {
    std::vector<float> data(500, 1.0F);
    const Memory memory = Memory::of(std::span(data));
    const Work work = rank.rank() == Rank{0} ? group.send(memory, 1) : group.recv(memory, 0);
    EXPECT_EQ(work.wait(), CommStatus::kOk);
    EXPECT_EQ(rank.now().ns, 3000);
  });
}

TEST(FidelityTest, JitterRepeatsWithTheSeed) {
  GroupOptions options = with("gloo-ring", Fidelity::kMessage, {.intra = kLink});
  options.net.intra.jitter_ns = 400;
  options.net.seed = 5;
  const Times times = two_all_reduces(options, 0);
  EXPECT_EQ(two_all_reduces(options, 0), times);
  options.net.seed = 6;
  EXPECT_NE(two_all_reduces(options, 0), times);
}

// Message 7 of an all-reduce never arrives: no rank can proceed; the verdict says where they wait.
TEST(FidelityTest, ALostMessageEndsInAVerdict) {
  for (const std::string order : {"gloo-ring", "nccl-tree", "pairwise", "rank"}) {
    GroupOptions options = with(order, Fidelity::kMessage, {.intra = kLink});
    options.net.lost = {3};
    const GroupRun run =
        run_groups({.n_ranks = 4, .group = options}, [](ProcessGroup& group, RankHandle& /*rank*/) {
          std::vector<float> data(100, 1.0F);
          const Work work =
              group.all_reduce(Memory::of(std::span(data)), ReduceOp::kSum, testing::at("a.py", 7));
          EXPECT_EQ(work.wait(), CommStatus::kOk);
        });
    ASSERT_TRUE(run.world.stuck.has_value()) << order;
    EXPECT_NE(run.explanation.find("wait for all_reduce #0 of group 0 (100 x f32) at a.py:7"),
              std::string::npos)
        << run.explanation;
    EXPECT_TRUE(run.missing.empty()) << "all ranks called it";
  }
}

TEST(FidelityTest, DifferentCallsAreReportedAtOnce) {
  const GroupOptions options = with("gloo-ring", Fidelity::kMessage, {.intra = kLink});
  run_groups({.n_ranks = 3, .group = options}, [](ProcessGroup& group, RankHandle& rank) {
    std::vector<float> data(rank.rank() == Rank{1} ? 8 : 9, 1.0F);
    EXPECT_EQ(group.all_reduce(Memory::of(std::span(data))).wait(), CommStatus::kMismatch);
  });
}

// A rank that leaves takes its memory with it: what all ranks have called happens at once.
TEST(FidelityTest, WorkPostedBeforeLeavingStillCompletes) {
  for (const Fidelity fidelity : {Fidelity::kRendezvous, Fidelity::kMessage}) {
    const GroupOptions options = with("gloo-ring", fidelity, {.intra = kLink});
    std::vector<std::vector<float>> all(3, std::vector<float>(9, 1.0F));  // Outlives the groups.
    const GroupRun run =
        run_groups({.n_ranks = 3, .group = options}, [&](ProcessGroup& group, RankHandle& rank) {
          std::vector<float>& data = all[to_index(rank.rank())];
          const Work work = group.all_reduce(Memory::of(std::span(data)));
          if (rank.rank() == Rank{0}) {
            rank.sleep({100});  // Until all have posted.
            return;
          }
          EXPECT_EQ(work.wait(), CommStatus::kOk);
          EXPECT_EQ(data, std::vector<float>(9, 3.0F));
        });
    EXPECT_FALSE(run.world.stuck.has_value()) << run.explanation;
  }
}

/// Adds one value per rank in exact mode; what went wrong, if anything did.
std::string exact_sum(const GroupOptions& options, const std::vector<float>& values) {
  const auto n_ranks = static_cast<std::int32_t>(values.size());
  const GroupRun run = run_groups({.n_ranks = n_ranks, .group = options, .exact = true},
                                  [&](ProcessGroup& group, RankHandle& rank) {
                                    rank.sleep({100 * (n_ranks - to_int(rank.rank()))});
                                    std::vector<float> data(9, values[to_index(rank.rank())]);
                                    group.all_reduce(Memory::of(std::span(data))).wait_or_throw();
                                  });
  EXPECT_FALSE(run.world.stuck.has_value()) << run.explanation;
  if (!run.world.first_failure) return "";
  try {
    std::rethrow_exception(
        run.world.ends[static_cast<std::size_t>(*run.world.first_failure)].exception);
  } catch (const InexactOperation& inexact) {
    return inexact.what();
  }
}

// The proof of exactness looks into messages as it does into meetings: an error of a rank.
TEST(FidelityTest, AMessageThatRoundsIsAnErrorInExactMode) {
  const float small = 0x1p-30F;
  for (const Fidelity fidelity : {Fidelity::kRendezvous, Fidelity::kMessage}) {
    for (const LinkSpec& link : {LinkSpec{}, kLink}) {
      for (const std::string order :
           {"rank", "gloo-ring", "pairwise", "nccl-ring@2", "nccl-tree"}) {
        const GroupOptions options = with(order, fidelity, {.intra = link});
        EXPECT_EQ(exact_sum(options, {1.0F, 2.0F, 4.0F, 0.5F}), "") << order;
        EXPECT_NE(exact_sum(options, {1.0F, small, 4.0F, 0.5F}), "") << order;
        EXPECT_NE(exact_sum(options, {1.0F, 2.0F, 4.0F, small}), "") << order;
      }
    }
  }
}

TEST(FidelityTest, ADeadlineMayPassWhileTheTransferIsUnderWay) {
  for (const Fidelity fidelity : {Fidelity::kRendezvous, Fidelity::kMessage}) {
    const GroupOptions options = with("gloo-ring", fidelity, {.intra = kLink});
    run_groups({.n_ranks = 3, .group = options}, [](ProcessGroup& group, RankHandle& rank) {
      std::vector<float> data(900, 1.0F);
      const Memory memory = Memory::of(std::span(data));
      EXPECT_EQ(group.all_reduce(memory, ReduceOp::kSum, {.timeout = {3000}}).wait(),
                CommStatus::kTimedOut);
      EXPECT_EQ(rank.now().ns, 3000);
      EXPECT_EQ(group.all_reduce(memory).wait(), CommStatus::kOk);
    });
  }
}

}  // namespace
}  // namespace lockstep::sim
