// The simulator under a job: scheduling points, large all-reduces, and the memory of a waiting
// rank.
#include <benchmark/benchmark.h>
#include <cstdint>
#include <fstream>
#include <unistd.h>
#include <vector>

#include "lockstep/run.h"
#include "lockstep/sim/fiber/world.h"
#include "lockstep/sim/strategy/strategies.h"

namespace lockstep::sim {
namespace {

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t total_pages = 0;
  std::int64_t pages = 0;
  file >> total_pages >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

// 10,000 ranks that do nothing but yield. range: points per rank.
void points(benchmark::State& state, const char* strategy_name) {
  constexpr std::int32_t kRanks = 10'000;
  const std::int64_t n_points = state.range(0);
  World world;
  const auto strategy = make_strategy(strategy_name, 1);
  for ([[maybe_unused]] auto _ : state) {  // NOLINT(clang-analyzer-deadcode.DeadStores)
    world.run({.n_ranks = kRanks}, *strategy.value(), [n_points](RankHandle& rank) {
      for (std::int64_t i = 0; i < n_points; ++i) rank.point({});
    });
  }
  state.counters["points/s"] = benchmark::Counter(
      static_cast<double>(kRanks * n_points * state.iterations()), benchmark::Counter::kIsRate);
}

BENCHMARK_CAPTURE(points, fifo, "round-robin")->Arg(100)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(points, random, "random")->Arg(100)->Unit(benchmark::kMillisecond);

// 16 MiB on each of 8 ranks, in place: every input is read and every output written once.
void all_reduce_16_mib(benchmark::State& state) {
  constexpr std::int32_t kRanks = 8;
  constexpr std::size_t kElems = std::size_t{4} << 20U;
  constexpr int kRounds = 10;
  Simulator simulator;
  std::vector<std::vector<float>> data(kRanks, std::vector<float>(kElems, 1e-30F));
  for ([[maybe_unused]] auto _ : state) {  // NOLINT(clang-analyzer-deadcode.DeadStores)
    simulator.run({.ranks = kRanks, .record = false}, [&data](RankContext& context) {
      const auto own = Memory::of(std::span(data[static_cast<std::size_t>(context.rank())]));
      for (int i = 0; i < kRounds; ++i) context.world().all_reduce(own).wait_or_throw();
    });
  }
  state.counters["bytes/s"] = benchmark::Counter(
      2.0 * kRanks * kElems * sizeof(float) * kRounds * static_cast<double>(state.iterations()),
      benchmark::Counter::kIsRate);
}

BENCHMARK(all_reduce_16_mib)->Unit(benchmark::kMillisecond);

// What 100,000 ranks keep resident while all of them wait at a point.
void idle_ranks(benchmark::State& state) {
  constexpr std::int32_t kRanks = 100'000;
  std::int64_t grown = 0;
  for ([[maybe_unused]] auto _ : state) {  // NOLINT(clang-analyzer-deadcode.DeadStores)
    World world;
    const auto strategy = make_strategy("round-robin", 1);
    const std::int64_t before = resident_bytes();
    world.run({.n_ranks = kRanks}, *strategy.value(), [&](RankHandle& rank) {
      rank.point({});
      if (to_int(rank.rank()) == kRanks - 1) grown = resident_bytes() - before;
    });
  }
  state.counters["bytes/rank"] = static_cast<double>(grown) / kRanks;
}

BENCHMARK(idle_ranks)->Iterations(1)->Unit(benchmark::kMillisecond);

// The same while all of them wait in an all-reduce of one float.
void reducing_ranks(benchmark::State& state) {
  constexpr std::int32_t kRanks = 100'000;
  std::int64_t grown = 0;
  for ([[maybe_unused]] auto _ : state) {  // NOLINT(clang-analyzer-deadcode.DeadStores)
    Simulator simulator;
    const std::int64_t before = resident_bytes();
    simulator.run({.ranks = kRanks, .record = false}, [&](RankContext& context) {
      float value = 1.0F;
      if (context.rank() == kRanks - 1) grown = resident_bytes() - before;
      context.world().all_reduce({&value, 1, DType::kF32}).wait_or_throw();
    });
  }
  state.counters["bytes/rank"] = static_cast<double>(grown) / kRanks;
}

BENCHMARK(reducing_ranks)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace lockstep::sim

BENCHMARK_MAIN();
