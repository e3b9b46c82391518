// Messages and rendezvous give the same bits for the same named order.
#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "lockstep/sim/net/detail/ring_flight.h"

#include "tests/sim/net/net_fixture.h"

namespace lockstep::sim {
namespace {

using testing::Bytes;
using testing::Draws;
using testing::fly;
using testing::Operation;
using testing::Outcome;

/// Elements of every size of number, no NaN.
Bytes draw_elements(Draws& draws, std::int64_t count, DType dtype) {
  Bytes bytes(static_cast<std::size_t>(count * size_of(dtype)));
  for (std::int64_t i = 0; i < count; ++i) {
    std::byte* at = bytes.data() + i * size_of(dtype);
    const std::int64_t k = draws.below(20'001) - 10'000;
    const double real = static_cast<double>(k) / 997.0;
    if (dtype == DType::kF32) {
      const auto value = static_cast<float>(real);
      std::memcpy(at, &value, sizeof(value));
    } else if (dtype == DType::kF64) {
      std::memcpy(at, &real, sizeof(real));
    } else if (dtype == DType::kI32) {
      const auto value = static_cast<std::int32_t>(k);
      std::memcpy(at, &value, sizeof(value));
    } else {  // 16-bit floats: a sign, a middling exponent, a fraction.
      const auto word = static_cast<std::uint16_t>(
          (draws.below(2) << 15U) | (dtype == DType::kF16 ? 0x3000 : 0x3f00) | draws.below(0x800));
      std::memcpy(at, &word, sizeof(word));
    }
  }
  return bytes;
}

/// What rendezvous fidelity computes: all inputs at once.
std::vector<Bytes> at_once(const Operation& operation, const std::vector<Bytes>& inputs) {
  const FlightJob& job = operation.job;
  const bool scatters = job.op == CollectiveOp::kReduceScatter;
  const auto n = static_cast<std::int64_t>(inputs.size());
  std::vector<Bytes> outputs(inputs.size(),
                             Bytes(static_cast<std::size_t>(job.count * size_of(job.dtype))));
  for (std::int64_t part = 0; part < (scatters ? n : 1); ++part) {
    std::vector<const void*> ins;
    for (const Bytes& input : inputs) {
      ins.push_back(input.data() + part * job.count * size_of(job.dtype));
    }
    std::vector<void*> outs;
    for (Bytes& output : outputs) outs.push_back(output.data());
    if (scatters) outs = {outputs[static_cast<std::size_t>(part)].data()};
    RankReduction reduction{.outputs = outs,
                            .inputs = ins,
                            .count = job.count,
                            .dtype = job.dtype,
                            .op = job.reduce,
                            .premul = job.premul};
    if (scatters) {
      reduction.last = static_cast<std::int32_t>(part);
      reduction.offset = part * job.count;
      reduction.total = n * job.count;
    }
    reduce_in_order(*job.kernels, reduction, operation.order);
  }
  return outputs;
}

const std::vector<std::string>& orders() {
  static const std::vector<std::string> names = {"rank",
                                                 "gloo-ring",
                                                 "pairwise",
                                                 "nccl-ring",
                                                 "nccl-ring@3",
                                                 "nccl-ring.ll@2",
                                                 "nccl-tree",
                                                 "nccl-tree@2",
                                                 "nccl-tree.ll@4/2"};
  return names;
}

NetOptions draw_net(Draws& draws) {
  NetOptions net;
  if (draws.below(3) > 0) {
    net.intra = {.latency_ns = draws.below(3000), .gb_per_s = 10.0, .jitter_ns = draws.below(500)};
    net.inter = {.latency_ns = 9000, .gb_per_s = 1.0, .jitter_ns = 0};
    net.ranks_per_node = static_cast<std::int32_t>(draws.below(4));
  }
  if (draws.below(2) == 0) net.chunk_bytes = 1 + draws.below(300);
  net.seed = static_cast<std::uint64_t>(draws.below(1000));
  return net;
}

TEST(FlightTest, MessageFidelityGivesTheBitsOfARendezvous) {
  const auto kernels = make_cpu_kernels();
  const DType dtypes[] = {DType::kF32, DType::kF64, DType::kI32, DType::kF16, DType::kBF16};
  const ReduceOp ops[] = {ReduceOp::kSum,
                          ReduceOp::kAvg,
                          ReduceOp::kProduct,
                          ReduceOp::kMin,
                          ReduceOp::kMax,
                          ReduceOp::kPremulSum};
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    Draws draws(seed);
    const auto n = static_cast<std::int32_t>(2 + draws.below(8));
    const std::int64_t counts[] = {1, 2, n - 1, n + 1, 2 * n, 37, 1000, 1 + draws.below(20'000)};
    const auto members = testing::ranks_upto(n);
    Operation operation;
    operation.order =
        parse_reduction_order(orders()[static_cast<std::size_t>(draws.below(7))]).value();
    operation.job = {.op = CollectiveOp::kAllReduce,
                     .reduce = ops[draws.below(6)],
                     .premul = 0.3,
                     .dtype = dtypes[draws.below(5)],
                     .count = counts[draws.below(8)],
                     .kernels = kernels.get(),
                     .members = members};
    if (operation.job.reduce == ReduceOp::kPremulSum && operation.job.dtype == DType::kI32)
      continue;
    const bool pairwise = operation.order.kind() == ReductionOrder::kPairwise;
    const bool scatters = !pairwise && draws.below(3) == 0;
    if (scatters) operation.job.op = CollectiveOp::kReduceScatter;
    operation.net = draw_net(draws);
    for (std::int32_t m = 0; m < n; ++m) operation.posted_at.push_back(draws.below(20'000));
    std::vector<Bytes> inputs;
    for (std::int32_t m = 0; m < n; ++m) {
      inputs.push_back(
          draw_elements(draws, operation.job.count * (scatters ? n : 1), operation.job.dtype));
    }
    const Outcome outcome =
        fly(operation,
            inputs,
            static_cast<std::size_t>(operation.job.count * size_of(operation.job.dtype)));
    ASSERT_EQ(outcome.n_done, inputs.size()) << "seed " << seed;
    ASSERT_EQ(outcome.outputs, at_once(operation, inputs))
        << "seed " << seed << ": " << n << " ranks, " << operation.job.count << " x "
        << name_of(operation.job.dtype) << ", " << operation.order.name() << ", op "
        << static_cast<int>(operation.job.reduce);
  }
}

TEST(FlightTest, AllRanksGetWhatIsBroadcastOrGathered) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Draws draws(seed);
    const auto n = static_cast<std::int32_t>(2 + draws.below(8));
    const auto members = testing::ranks_upto(n);
    const bool gathers = draws.below(2) == 0;
    Operation operation;
    operation.order =
        parse_reduction_order(orders()[static_cast<std::size_t>(draws.below(7))]).value();
    operation.net = draw_net(draws);
    operation.job = {.op = gathers ? CollectiveOp::kAllGather : CollectiveOp::kBroadcast,
                     .dtype = DType::kI32,
                     .count = 1 + draws.below(300),
                     .root = static_cast<std::int32_t>(draws.below(n)),
                     .members = members};
    for (std::int32_t m = 0; m < n; ++m) operation.posted_at.push_back(draws.below(20'000));
    std::vector<Bytes> inputs;
    Bytes all;
    for (std::int32_t m = 0; m < n; ++m) {
      inputs.push_back(draw_elements(draws, operation.job.count, DType::kI32));
      all.insert(all.end(), inputs.back().begin(), inputs.back().end());
    }
    const Bytes& expected = gathers ? all : inputs[static_cast<std::size_t>(operation.job.root)];
    const Outcome outcome = fly(operation, inputs, expected.size());
    ASSERT_EQ(outcome.n_done, inputs.size()) << "seed " << seed;
    for (const Bytes& output : outcome.outputs) ASSERT_EQ(output, expected) << "seed " << seed;
  }
}

/// Gloo's ring over 5 ranks with an all-reduce of 40 floats.
class TamperedRing : public ::testing::Test {
 protected:
  Outcome run(const std::function<void(RingPlan&)>& tamper) const {
    return fly(operation_, inputs_, 160, [&](Network& network, FlightClient& client) {
      RingPlan plan = plan_ring(operation_.job, operation_.order, INT64_MAX);
      tamper(plan);
      return std::make_unique<RingFlight>(network, client, operation_.job, false, std::move(plan));
    });
  }

  void SetUp() override {
    Draws draws(5);
    for (int m = 0; m < 5; ++m) inputs_.push_back(draw_elements(draws, 40, DType::kF32));
    operation_.job = {
        .dtype = DType::kF32, .count = 40, .kernels = kernels_.get(), .members = members_};
  }

  std::unique_ptr<Kernels> kernels_ = make_cpu_kernels();
  std::vector<std::int32_t> members_ = testing::ranks_upto(5);
  std::vector<Bytes> inputs_;
  Operation operation_;
};

TEST_F(TamperedRing, AnUntamperedRingIsGloos) {
  EXPECT_EQ(run([](RingPlan&) {}).outputs, at_once(operation_, inputs_));
}

TEST_F(TamperedRing, ChunksThatStartOneRankLaterHaveOtherBits) {
  const Outcome outcome = run([](RingPlan& plan) {
    for (RingRoute& route : plan.routes) route.start = (route.start + 1) % 5;
  });
  EXPECT_EQ(outcome.n_done, 5U);
  EXPECT_NE(outcome.outputs, at_once(operation_, inputs_));
}

TEST_F(TamperedRing, AnotherDirectionHasOtherBits) {
  const Outcome outcome =
      run([](RingPlan& plan) { std::reverse(plan.rings[0].begin(), plan.rings[0].end()); });
  EXPECT_EQ(outcome.n_done, 5U);
  EXPECT_NE(outcome.outputs, at_once(operation_, inputs_));
}

TEST_F(TamperedRing, AnyLostMessageLeavesARankWaiting) {
  const std::int64_t n_messages = run([](RingPlan&) {}).n_messages;
  ASSERT_EQ(n_messages, 5 * 8);
  for (std::int64_t lost = 0; lost < n_messages; ++lost) {
    operation_.net.lost = {lost};
    EXPECT_LT(run([](RingPlan&) {}).n_done, 5U) << "message " << lost;
  }
}

// Its memory is about to go: everything happens at once.
TEST_F(TamperedRing, AFlightDeliveredAtOnceEndsWithTheSameBits) {
  operation_.net.intra = {.latency_ns = 1000, .gb_per_s = 1.0};
  for (const std::string& order : orders()) {
    operation_.order = parse_reduction_order(order).value();
    Network network(operation_.net, 5);
    testing::Finish finish(5);
    const auto flight = make_flight(network, finish, operation_.job, operation_.order);
    std::vector<Bytes> data = inputs_;
    std::vector<Memory> lists;
    for (Bytes& bytes : data) lists.push_back(testing::whole(bytes, DType::kF32));
    for (std::int32_t m = 0; m < 5; ++m) {
      const std::span<const Memory> own(&lists[static_cast<std::size_t>(m)], 1);
      flight->post(m, own, own);
    }
    network.run({1500}, {1500});
    network.deliver_now(*flight);
    EXPECT_EQ(finish.n_done, 5U) << order;
    EXPECT_EQ(data, at_once(operation_, inputs_)) << order;
    EXPECT_FALSE(network.run({1500}, {INT64_MAX}).has_value()) << order;
  }
}

}  // namespace
}  // namespace lockstep::sim
