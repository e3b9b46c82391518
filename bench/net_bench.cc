// Hops a second of collectives that run as messages: what a simulated network costs.
#include <benchmark/benchmark.h>
#include <cstdint>
#include <exception>
#include <numeric>
#include <vector>

#include "lockstep/kernels/cpu_kernels.h"
#include "lockstep/sim/net/flight.h"

namespace lockstep::sim {
namespace {

class Ignore final : public FlightClient {
 public:
  void on_member_done(std::int32_t /*member*/) override {}

  void on_inexact(std::exception_ptr problem) override { std::rethrow_exception(problem); }
};

/// All-reduces of 16 floats per rank and chunk over range(0) ranks. range(1): links cost time, and
/// each message draws jitter, so that no two arrive together.
void all_reduce(benchmark::State& state, ReductionOrder::Kind order) {
  const auto n = static_cast<std::int32_t>(state.range(0));
  NetOptions net;
  if (state.range(1) > 0) net.intra = {.latency_ns = 2000, .gb_per_s = 50.0, .jitter_ns = 0};
  if (state.range(1) > 1) net.intra.jitter_ns = 500;
  std::vector<std::int32_t> members(static_cast<std::size_t>(n));
  std::iota(members.begin(), members.end(), 0);
  const std::int64_t count = std::int64_t{16} * n;
  std::vector<std::vector<float>> data(members.size(),
                                       std::vector<float>(static_cast<std::size_t>(count), 1.0F));
  const auto kernels = make_cpu_kernels();
  Network network(net, n);
  Ignore client;
  std::int64_t now_ns = 0;
  for ([[maybe_unused]] auto _ : state) {  // NOLINT(clang-analyzer-deadcode.DeadStores)
    const FlightJob job{
        .dtype = DType::kF32, .count = count, .kernels = kernels.get(), .members = members};
    const auto flight = make_flight(network, client, job, order);
    network.set_now({now_ns += 1'000'000'000});
    std::vector<Memory> lists;
    lists.reserve(data.size());
    for (std::vector<float>& own : data) lists.push_back(Memory::of(std::span(own)));
    for (std::int32_t m = 0; m < n; ++m) {
      const std::span<const Memory> own(&lists[static_cast<std::size_t>(m)], 1);
      flight->post(m, own, own);
    }
    network.run({INT64_MAX}, {INT64_MAX});
  }
  state.counters["hops/s"] =
      benchmark::Counter(static_cast<double>(network.n_messages()), benchmark::Counter::kIsRate);
}

BENCHMARK_CAPTURE(all_reduce, ring, ReductionOrder::kGlooRing)
    ->ArgsProduct({{8, 256}, {0, 1, 2}})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(all_reduce, tree, ReductionOrder::kNcclTree)
    ->ArgsProduct({{256}, {1, 2}})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(all_reduce, halving, ReductionOrder::kPairwise)
    ->ArgsProduct({{256}, {1, 2}})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace lockstep::sim

BENCHMARK_MAIN();
