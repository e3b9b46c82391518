// How long collectives take as messages, against the formulas.
#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "lockstep/sim/net/cost_model.h"

#include "tests/sim/net/net_fixture.h"

namespace lockstep::sim {
namespace {

using testing::Bytes;
using testing::fly;
using testing::Operation;
using testing::Outcome;

constexpr std::int64_t kAlpha = 2000;
constexpr double kGbPerS = 12.5;

/// An operation on bytes, all ranks posting at 0.
Outcome time_bytes(CollectiveOp op,
                   std::int32_t n,
                   std::int64_t count,
                   const ReductionOrder& order,
                   const NetOptions& net) {
  const auto members = testing::ranks_upto(n);
  const auto kernels = make_cpu_kernels();
  const Operation operation{.job = {.op = op,
                                    .dtype = DType::kF32,
                                    .count = count,
                                    .kernels = kernels.get(),
                                    .members = members},
                            .order = order,
                            .net = net,
                            .posted_at = {}};
  const bool gathers = op == CollectiveOp::kAllGather;
  const bool scatters = op == CollectiveOp::kReduceScatter;
  const auto bytes = static_cast<std::size_t>(count) * 4;
  return fly(operation,
             std::vector<Bytes>(static_cast<std::size_t>(n),
                                Bytes(scatters ? bytes * members.size() : bytes)),
             gathers ? bytes * members.size() : bytes);
}

NetOptions flat() { return {.intra = {.latency_ns = kAlpha, .gb_per_s = kGbPerS}}; }

double within(double actual, double expected) { return std::abs(actual - expected) / expected; }

// Counts that 2n and 4 divide, so that all chunks are equal.
TEST(CollectiveTimesTest, ARingTakesTwiceNMinusOneSteps) {
  for (const std::int32_t n : {2, 3, 4, 7, 8, 16, 64}) {
    for (const std::int64_t per_rank : {8, 800, 8'000}) {
      const std::int64_t count = per_rank * n;
      const double chunk_ns = static_cast<double>(per_rank * 4) / kGbPerS;
      const double expected = 2.0 * (n - 1) * (static_cast<double>(kAlpha) + chunk_ns);
      for (const ReductionOrder::Kind order :
           {ReductionOrder::kGlooRing, ReductionOrder::kNcclRing}) {
        const Outcome outcome = time_bytes(CollectiveOp::kAllReduce, n, count, order, flat());
        ASSERT_EQ(outcome.n_done, static_cast<std::size_t>(n));
        EXPECT_LT(within(static_cast<double>(outcome.ended_at), expected), 0.01)
            << n << " ranks, " << count << " elements: " << outcome.ended_at;
        EXPECT_EQ(outcome.n_messages, 2 * (n - 1) * n);
      }
    }
  }
}

TEST(CollectiveTimesTest, HalvingAndDoublingTakesTwiceLogNSteps) {
  for (const std::int32_t n : {2, 4, 8, 16, 64}) {
    for (const std::int64_t per_rank : {8, 8'000}) {
      const double whole_ns = static_cast<double>(per_rank * n * 4) / kGbPerS;
      const double expected =
          2.0 * std::log2(n) * static_cast<double>(kAlpha) + 2.0 * (n - 1) / n * whole_ns;
      const Outcome outcome =
          time_bytes(CollectiveOp::kAllReduce, n, per_rank * n, ReductionOrder::kPairwise, flat());
      ASSERT_EQ(outcome.n_done, static_cast<std::size_t>(n));
      EXPECT_LT(within(static_cast<double>(outcome.ended_at), expected), 0.01) << n << " ranks";
    }
  }
}

// Two children share their parent's port, so a level below the root's child costs two transfers.
TEST(CollectiveTimesTest, ATreeTakesItsDepthUpAndDown) {
  for (const std::int32_t n : {2, 4, 8, 16, 64}) {
    const double k = std::log2(n);
    for (const std::int64_t count : {16, 160'000}) {
      const double whole_ns = static_cast<double>(count * 4) / kGbPerS;
      const double expected = 2.0 * (k * static_cast<double>(kAlpha) + (2.0 * k - 1.0) * whole_ns);
      const Outcome outcome =
          time_bytes(CollectiveOp::kAllReduce, n, count, ReductionOrder::kNcclTree, flat());
      ASSERT_EQ(outcome.n_done, static_cast<std::size_t>(n));
      EXPECT_LT(within(static_cast<double>(outcome.ended_at), expected), 0.01) << n << " ranks";
    }
  }
}

TEST(CollectiveTimesTest, ARankAloneWaitsForNoLink) {
  const std::vector<std::int32_t> members = testing::ranks_upto(1);
  for (const CollectiveOp op : {CollectiveOp::kAllReduce,
                                CollectiveOp::kBroadcast,
                                CollectiveOp::kReduceScatter,
                                CollectiveOp::kAllGather,
                                CollectiveOp::kGather,
                                CollectiveOp::kScatter,
                                CollectiveOp::kAllToAll,
                                CollectiveOp::kBarrier}) {
    EXPECT_EQ(
        time_of(
            {.op = op, .n_bytes = 4000, .n_ranks = 1}, members, ReductionOrder::kGlooRing, flat())
            .ns,
        0)
        << name_of(op);
  }
}

TEST(CollectiveTimesTest, MovesTakeTheirFormulas) {
  for (const std::int32_t n : {2, 3, 5, 8, 16}) {
    const std::int64_t count = 40'000;
    const bool full_rounds = n != 3 && n != 5;
    const double part_ns = static_cast<double>(count * 4) / kGbPerS;
    const auto alpha = static_cast<double>(kAlpha);
    const double rounds = std::ceil(std::log2(n));

    const struct {
      CollectiveOp op;
      ReductionOrder::Kind order;
      double expected;
    } cases[] = {
        {CollectiveOp::kAllGather, ReductionOrder::kRank, (n - 1) * (alpha + part_ns)},
        {CollectiveOp::kReduceScatter, ReductionOrder::kNcclRing, (n - 1) * (alpha + part_ns)},
        {CollectiveOp::kBroadcast, ReductionOrder::kGlooRing, rounds * (alpha + part_ns)},
        {CollectiveOp::kBroadcast, ReductionOrder::kNcclRing, (n - 1) * (alpha + part_ns)},
    };

    for (const auto& [op, order, expected] : cases) {
      // Where the last round has fewer members, no rank waits for all of them.
      if (order == ReductionOrder::kGlooRing && !full_rounds) continue;
      const Outcome outcome = time_bytes(op, n, count, order, flat());
      ASSERT_EQ(outcome.n_done, static_cast<std::size_t>(n));
      EXPECT_LT(within(static_cast<double>(outcome.ended_at), expected), 0.01)
          << n << " ranks, " << name_of(op);
    }
  }
}

// What rendezvous fidelity charges is what messages take, wherever both are defined.
TEST(CollectiveTimesTest, TheCostModelSaysTheSame) {
  for (const std::int32_t n : {2, 4, 8, 16}) {
    const auto members = testing::ranks_upto(n);
    const std::int64_t count = 16'000 * n;
    for (const ReductionOrder::Kind order : {ReductionOrder::kGlooRing,
                                             ReductionOrder::kNcclRing,
                                             ReductionOrder::kNcclTree,
                                             ReductionOrder::kPairwise}) {
      const Outcome outcome = time_bytes(CollectiveOp::kAllReduce, n, count, order, flat());
      const Duration predicted =
          time_of({.op = CollectiveOp::kAllReduce, .n_bytes = count * 4, .n_ranks = n},
                  members,
                  order,
                  flat());
      EXPECT_LT(within(static_cast<double>(outcome.ended_at), static_cast<double>(predicted.ns)),
                0.01)
          << name_of(ReductionOrder(order)) << ", " << n << " ranks";
    }
  }
}

// Pieces follow one another through a chain: the last one arrives a transfer later for each.
TEST(CollectiveTimesTest, PiecesOverlap) {
  NetOptions net = flat();
  const std::int64_t count = 100'000;
  const Outcome uncut =
      time_bytes(CollectiveOp::kBroadcast, 8, count, ReductionOrder::kNcclRing, net);
  net.chunk_bytes = 4'000;
  const Outcome cut =
      time_bytes(CollectiveOp::kBroadcast, 8, count, ReductionOrder::kNcclRing, net);
  const double piece_ns = 4'000 / kGbPerS;
  EXPECT_EQ(uncut.ended_at, 7 * (kAlpha + 32'000));
  EXPECT_NEAR(static_cast<double>(cut.ended_at), 7 * (kAlpha + piece_ns) + 99 * piece_ns, 1.0);
}

// Ranks 0 and 1 send to 2 and 3 through one port of their node: the second message waits.
TEST(CollectiveTimesTest, RanksOfANodeShareItsPort) {
  const NetOptions net{
      .intra = {}, .inter = {.latency_ns = 100, .gb_per_s = 1.0}, .ranks_per_node = 2};
  Network network(net, 4);
  EXPECT_EQ(network.pass(0, 2, 1000)->ns, 1100);
  EXPECT_EQ(network.pass(1, 3, 1000)->ns, 2100);
  EXPECT_EQ(network.pass(2, 0, 1000)->ns, 1100) << "the other direction is free";
  EXPECT_EQ(network.pass(0, 1, 1000)->ns, 0) << "inside the node links are free";
}

TEST(CollectiveTimesTest, JitterRepeatsWithItsSeedAndDiffersWithout) {
  NetOptions net = flat();
  net.intra.jitter_ns = 500;
  const auto times = [&](std::uint64_t seed) {
    net.seed = seed;
    return time_bytes(CollectiveOp::kAllReduce, 5, 1000, ReductionOrder::kGlooRing, net).done_at;
  };
  EXPECT_EQ(times(1), times(1));
  EXPECT_NE(times(1), times(2));
  const std::int64_t bare =
      time_bytes(CollectiveOp::kAllReduce, 5, 1000, ReductionOrder::kGlooRing, flat()).ended_at;
  for (const std::int64_t time : times(1)) {
    EXPECT_GE(time, bare);
    EXPECT_LE(time, bare + 8 * 500);
  }
}

// A late rank is waited for, and what can proceed does.
TEST(CollectiveTimesTest, AStragglerHoldsUpTheOthers) {
  const auto members = testing::ranks_upto(4);
  const auto kernels = make_cpu_kernels();
  Operation operation{
      .job = {.dtype = DType::kF32, .count = 4000, .kernels = kernels.get(), .members = members},
      .order = ReductionOrder::kGlooRing,
      .net = flat(),
      .posted_at = {}};
  const std::vector<Bytes> inputs(4, Bytes(16'000));
  const Outcome together = fly(operation, inputs, 16'000);
  operation.posted_at = {0, 0, 1'000'000, 0};
  const Outcome late = fly(operation, inputs, 16'000);
  EXPECT_EQ(late.n_done, 4U);
  for (const std::int64_t time : late.done_at) EXPECT_GT(time, 1'000'000);
  // All four chunks wait at its place and leave one after another.
  EXPECT_LT(late.ended_at, 1'000'000 + together.ended_at + 3 * 320 + 1);
}

}  // namespace
}  // namespace lockstep::sim
