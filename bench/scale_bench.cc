// Many ranks: what a world of this size costs in time and memory, and whether its results are true.
//
//   scale_bench reduce [RANKS] [STEPS] [RUNS] [KIB]   one all-reduce of a float and a barrier [1000000]
//   scale_bench train [RANKS] [STEPS] [RUNS] [KIB]    DDP on the MLP 16-16-1, batches of 8 [100000 10 2]
//
// More than KIB per rank is a failure.
// The first run is cold: it touches its stacks for the first time. Later ones are warm. One
// measurement per process, so that the peak of its memory is its own.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <sys/resource.h>

#include "lockstep/run.h"

#include "bench/tiny_mlp.h"

namespace lockstep {
namespace {

// In floats, whose sum in rank order is exact up to 2^24 ranks.
void reduce(Simulator& simulator, std::int32_t n_ranks) {
  std::int64_t n_wrong = 0;
  const RunOptions options{.ranks = n_ranks, .record = false};
  const auto run = simulator.run(options, [&](RankContext& context) {
    float value = 1.0F;
    context.world().all_reduce({&value, 1, DType::kF32}).wait_or_throw();
    context.world().barrier().wait_or_throw();
    if (value != static_cast<float>(n_ranks)) ++n_wrong;
  });
  if (!run.ok() || n_wrong > 0) throw std::runtime_error("the sum is wrong on some rank");
}

// The same rows on every rank: all gradients are equal, so are their means, and so is what ranks
// end with.
void train(Simulator& simulator, std::int32_t n_ranks, int n_steps) {
  const RunOptions options{.ranks = n_ranks, .record = false};
  const auto run = simulator.run(options, [&](RankContext& context) {
    Runtime& runtime = context.runtime();
    nn::Sequential model(runtime);
    bench::append_tiny(model);
    DistributedDataParallel ddp(model, context.world());
    optim::Sgd optimizer(model.parameters(), {.lr = 0.1});
    const Variable x(Tensor::full(runtime, {8, 16}, DType::kF32, 0.5));
    const Tensor y = Tensor::full(runtime, {8, 1}, DType::kF32, 0.5);
    double loss = 0.0;
    for (int step = 0; step < n_steps; ++step) {
      optimizer.zero_grad();
      const Variable error = mse_loss(ddp(x), y);
      error.backward();
      optimizer.step();
      loss = error.item();
    }
    return loss;
  });
  if (!run.ok()) throw std::runtime_error("the run failed");
  for (const std::optional<double>& loss : run.results) {
    if (loss != run.results.front()) throw std::runtime_error("the ranks' losses differ");
  }
}

struct Size {
  std::int32_t n_ranks = 0;
  int n_steps = 0;
};

double seconds_of(Simulator& simulator, const std::string& what, const Size& size) {
  const auto begin = std::chrono::steady_clock::now();
  if (what == "reduce") {
    reduce(simulator, size.n_ranks);
  } else {
    train(simulator, size.n_ranks, size.n_steps);
  }
  const std::chrono::duration<double> span = std::chrono::steady_clock::now() - begin;
  return span.count();
}

/// Returns: the KiB that a rank took.
double measure(const std::string& what, const Size& size, int n_runs) {
  Simulator simulator;
  const double cold = seconds_of(simulator, what, size);
  double warm = cold;
  for (int run = 1; run < n_runs; ++run) {
    warm = std::min(warm, seconds_of(simulator, what, size));
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const double gib = static_cast<double>(usage.ru_maxrss) / (1024.0 * 1024.0);
  std::printf("%s: %d ranks, cold %.2f s, ", what.c_str(), size.n_ranks, cold);
  if (n_runs > 1) std::printf("warm %.2f s, ", warm);
  const double kib_per_rank = gib * 1024.0 * 1024.0 / size.n_ranks;
  std::printf("%.2f GiB, %.1f KiB per rank\n", gib, kib_per_rank);
  return kib_per_rank;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "reduce";
  if (what != "reduce" && what != "train") {
    std::fprintf(stderr, "scale_bench reduce|train [RANKS] [STEPS] [RUNS] [KIB]\n");
    return 2;
  }
  const int fallback = what == "reduce" ? 1'000'000 : 100'000;
  try {
    const lockstep::Size size{.n_ranks = argc > 2 ? std::atoi(argv[2]) : fallback,
                              .n_steps = argc > 3 ? std::atoi(argv[3]) : 10};
    const double kib = lockstep::measure(what, size, argc > 4 ? std::atoi(argv[4]) : 2);
    if (argc > 5 && kib > std::atof(argv[5])) {
      std::fprintf(stderr, "a rank takes more than %s KiB\n", argv[5]);
      return 1;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
