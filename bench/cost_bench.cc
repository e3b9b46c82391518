// Nothing but what is to be counted: the tiny network's steps or small jobs, for a profiler.
//
//   cost_bench step|bare|job N
//
// "step": 32 ranks take N steps with all laws on; "bare": the same, nothing recorded; "job": N jobs
// of 4 ranks and 3 steps with all laws on. What starting costs goes away when the counts of two N
// are subtracted (bench/instructions.py).
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string_view>

#include "lockstep/run.h"

#include "bench/tiny_mlp.h"

namespace lockstep {
namespace {

void train(Simulator& simulator, const RunOptions& options, std::int64_t n_steps) {
  const auto run = simulator.run(
      options, [n_steps](RankContext& context) { bench::train_tiny(context, n_steps); });
  if (!run.ok()) throw std::runtime_error("a law was broken");
}

void measure(std::string_view what, std::int64_t n) {
  constexpr std::int32_t kManyRanks = 32;
  constexpr std::int64_t kFewSteps = 3;
  Simulator simulator;
  if (what == "step") return train(simulator, {.ranks = kManyRanks}, n);
  if (what == "bare") return train(simulator, {.ranks = kManyRanks, .record = false}, n);
  if (what != "job") throw std::invalid_argument("usage: cost_bench step|bare|job N");
  for (std::int64_t i = 0; i < n; ++i) train(simulator, {.ranks = 4}, kFewSteps);
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  try {
    lockstep::measure(argc > 1 ? argv[1] : "", argc > 2 ? std::atoll(argv[2]) : 1);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
