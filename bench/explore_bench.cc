// Schedules a second: the two-communicator cycle on four ranks, under each way to explore.
//
//   explore_bench [SCHEDULES]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>

#include "lockstep/sim/explore/explore.h"

#include "tests/sim/explore/programs.h"

namespace lockstep::sim {
namespace {

void measure(const char* strategy, std::uint64_t n_schedules) {
  const auto begin = std::chrono::steady_clock::now();
  const std::clock_t begin_cpu = std::clock();
  const auto result = explore({.session = testing::bare(4),
                               .strategy = strategy,
                               .n_schedules = n_schedules,
                               .stop_at_failure = false},
                              testing::two_communicator_cycle);
  const std::chrono::duration<double> span = std::chrono::steady_clock::now() - begin;
  const double cpu = static_cast<double>(std::clock() - begin_cpu) / CLOCKS_PER_SEC;
  if (!result.ok()) return;
  const Exploration& found = result.value();
  std::printf(
      "%-12s %8llu schedules %9.0f a second, %9.0f a second of processor time, first failure: "
      "%llu%s\n",
      strategy,
      static_cast<unsigned long long>(found.n_schedules),
      static_cast<double>(found.n_schedules) / span.count(),
      static_cast<double>(found.n_schedules) / cpu,
      static_cast<unsigned long long>(found.failure ? found.failure->number : 0),
      found.complete ? ", complete" : "");
}

}  // namespace
}  // namespace lockstep::sim

int main(int argc, char** argv) {
  const std::uint64_t n = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 100'000;
  try {
    for (const char* strategy : {"random", "pct:depth=3", "exhaustive"}) {
      lockstep::sim::measure(strategy, n);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
