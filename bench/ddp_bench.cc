// What a rank-step, a whole small job and a start cost, in one thread. table.py also runs real
// peers.
#include <benchmark/benchmark.h>
#include <vector>

#include "lockstep/random/generator.h"
#include "lockstep/run.h"

#include "bench/tiny_mlp.h"

namespace lockstep {
namespace {

constexpr std::int64_t kBatch = 8;

void run(benchmark::State& state, const RunOptions& options, std::int64_t steps) {
  Simulator simulator;
  for ([[maybe_unused]] auto _ : state) {  // NOLINT(clang-analyzer-deadcode.DeadStores)
    const auto result = simulator.run(
        options, [steps](RankContext& context) { bench::train_tiny(context, steps); });
    if (!result.ok()) state.SkipWithError("a law was broken");
  }
  const auto rank_steps = static_cast<double>(options.ranks) * static_cast<double>(steps);
  state.counters["rank-steps/s"] = benchmark::Counter(
      rank_steps * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

void step_bare(benchmark::State& state) {
  run(state, {.ranks = static_cast<std::int32_t>(state.range(0)), .record = false}, 200);
}

BENCHMARK(step_bare)->Arg(1)->Arg(32)->Arg(1024)->Unit(benchmark::kMillisecond);

// So many that their stacks and tensors are not in any cache when they are resumed. range: ranks
// and steps; the difference of two lengths is what a step costs without the start.
void step_of_many(benchmark::State& state) {
  run(state, {.ranks = static_cast<std::int32_t>(state.range(0)), .record = false}, state.range(1));
}

BENCHMARK(step_of_many)
    ->ArgsProduct({{32768}, {5, 15}})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

void step_with_laws(benchmark::State& state) {
  run(state, {.ranks = static_cast<std::int32_t>(state.range(0))}, 200);
}

BENCHMARK(step_with_laws)->Arg(1)->Arg(32)->Unit(benchmark::kMillisecond);

// One law and the gradients' digests and sketches, which are what it reads.
void step_with_gradient_mean(benchmark::State& state) {
  run(state, {.ranks = static_cast<std::int32_t>(state.range(0)), .laws = {"gradient-mean"}}, 200);
}

BENCHMARK(step_with_gradient_mean)->Arg(32)->Unit(benchmark::kMillisecond);

// One hidden layer. At 1024 units the digests of a step read twenty megabytes. `wrap` makes of the
// model what is trained.
template <typename Wrap>
void train_wide(RankContext& context, std::int64_t width, std::int64_t steps, Wrap wrap) {
  Runtime& runtime = context.runtime();
  Generator generator(1);
  nn::Sequential model(runtime);
  model.append<nn::Linear>(width, width, generator);
  model.append<nn::ReLU>();
  model.append<nn::Linear>(width, 1, generator);
  auto&& trained = wrap(model);
  optim::Sgd optimizer(model.parameters(), {.lr = 0.01});
  const double rank = context.rank();
  const Variable x(Tensor::full(runtime, {kBatch, width}, DType::kF32, 0.25 + rank));
  const Tensor target = Tensor::full(runtime, {kBatch, 1}, DType::kF32, 1.0);
  for (std::int64_t step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    mse_loss(trained(x), target).backward();
    optimizer.step();
  }
}

// Ranks and width. Narrow networks take more steps, so that the start does not count.
template <typename Train>
void run_wide(benchmark::State& state, RunOptions options, Train train) {
  options.ranks = static_cast<std::int32_t>(state.range(0));
  const std::int64_t width = state.range(1);
  const std::int64_t steps = 60 * (1024 / width);
  Simulator simulator;
  for ([[maybe_unused]] auto _ : state) {  // NOLINT(clang-analyzer-deadcode.DeadStores)
    const auto result =
        simulator.run(options, [&](RankContext& context) { train(context, width, steps); });
    if (!result.ok()) state.SkipWithError("a law was broken");
  }
  state.counters["steps"] = static_cast<double>(steps);
}

void run_wide(benchmark::State& state, const RunOptions& options) {
  run_wide(state, options, [](RankContext& context, std::int64_t width, std::int64_t steps) {
    train_wide(context, width, steps, [&](nn::Sequential& model) {
      return DistributedDataParallel(model, context.world());
    });
  });
}

// What a program without a wrapper does, as the peer of this row: no bucket, no division, no copies.
void wide_alone(benchmark::State& state) {
  run_wide(
      state, {.record = false}, [](RankContext& context, std::int64_t width, std::int64_t steps) {
        train_wide(
            context, width, steps, [](nn::Sequential& model) -> nn::Sequential& { return model; });
      });
}

BENCHMARK(wide_alone)
    ->Args({1, 16})
    ->Args({1, 256})
    ->Args({1, 1024})
    ->Unit(benchmark::kMillisecond);

void wide_bare(benchmark::State& state) { run_wide(state, {.record = false}); }

BENCHMARK(wide_bare)->Args({1, 16})->Args({1, 256})->Args({1, 1024})->Args({2, 1024})->Unit(
    benchmark::kMillisecond);

void wide_with_laws(benchmark::State& state) { run_wide(state, {}); }

BENCHMARK(wide_with_laws)->Args({1, 1024})->Args({2, 1024})->Unit(benchmark::kMillisecond);

void wide_covering_a_sixteenth(benchmark::State& state) { run_wide(state, {.coverage = 16}); }

BENCHMARK(wide_covering_a_sixteenth)
    ->Args({1, 1024})
    ->Args({2, 1024})
    ->Unit(benchmark::kMillisecond);

// Jobs of 4 ranks and 3 steps, laws on: what a property test runs by the thousand.
void small_job(benchmark::State& state) { run(state, {.ranks = 4}, 3); }

BENCHMARK(small_job)->Unit(benchmark::kMicrosecond);

void small_job_bare(benchmark::State& state) { run(state, {.ranks = 4, .record = false}, 3); }

BENCHMARK(small_job_bare)->Unit(benchmark::kMicrosecond);

void start_and_stop(benchmark::State& state) {
  Simulator simulator;
  for ([[maybe_unused]] auto _ : state) {  // NOLINT(clang-analyzer-deadcode.DeadStores)
    simulator.run({.ranks = static_cast<std::int32_t>(state.range(0)), .record = false},
                  [](RankContext&) {});
  }
}

BENCHMARK(start_and_stop)->Arg(32)->Arg(1024)->Unit(benchmark::kMicrosecond);

void all_reduce_256(benchmark::State& state) {
  constexpr int kRounds = 20;
  Simulator simulator;
  for ([[maybe_unused]] auto _ : state) {  // NOLINT(clang-analyzer-deadcode.DeadStores)
    simulator.run({.ranks = static_cast<std::int32_t>(state.range(0)), .record = false},
                  [](RankContext& context) {
                    std::vector<float> data(256, 1.0F);
                    for (int i = 0; i < kRounds; ++i) {
                      context.world().all_reduce(Memory::of(std::span(data))).wait_or_throw();
                    }
                  });
  }
  state.counters["s/all-reduce"] =
      benchmark::Counter(kRounds * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

BENCHMARK(all_reduce_256)->Arg(8)->Arg(1024)->Arg(4096)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace lockstep

BENCHMARK_MAIN();
