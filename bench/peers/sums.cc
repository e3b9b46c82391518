// What an all-reduce of 256 floats cannot avoid: each rank's array is read and added, and the sum is written to each.
//
//   peer_sums RANKS..
//
// Prints one line of JSON: the least seconds for each number of ranks, in one loop without ranks, calls or switches.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr std::size_t kElems = 256;
constexpr int kRounds = 20;
constexpr int kRuns = 20;

double seconds_of(std::size_t n_ranks) {
  std::vector<std::vector<float>> ranks(n_ranks, std::vector<float>(kElems, 1e-30F));
  double best = 1e9;
  for (int run = 0; run < kRuns; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    for (int round = 0; round < kRounds; ++round) {
      std::array<float, kElems> sum{};
      for (const std::vector<float>& rank : ranks) {
        for (std::size_t i = 0; i < kElems; ++i) sum[i] += rank[i];
      }
      for (std::vector<float>& rank : ranks) std::copy(sum.begin(), sum.end(), rank.begin());
    }
    const std::chrono::duration<double> span = std::chrono::steady_clock::now() - begin;
    best = std::min(best, span.count() / kRounds);
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const char* separator = "{";
  for (int i = 1; i < argc; ++i) {
    const auto n_ranks = static_cast<std::size_t>(std::strtoul(argv[i], nullptr, 10));
    std::printf("%s\"%zu\": %.6g", separator, n_ranks, seconds_of(n_ranks));
    separator = ", ";
  }
  std::puts("}");
  return 0;
}
