// Draws one random permutation and prints how long it took and what came out.
//
// Usage: randperm_bench COUNT SEED RUNS. Prints the best of RUNS in seconds, and a digest over all
// elements (FNV-1a over 64-bit words), which randperm.py compares with PyTorch's.
#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "lockstep/random/permutation.h"

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: randperm_bench COUNT SEED RUNS\n");
    return 2;
  }
  const auto count = static_cast<std::size_t>(std::strtoull(argv[1], nullptr, 10));
  const auto seed = static_cast<std::uint64_t>(std::strtoull(argv[2], nullptr, 10));
  const int runs = std::atoi(argv[3]);
  double best = 1e30;
  std::uint64_t digest = 0;
  for (int run = 0; run < runs; ++run) {
    lockstep::Generator generator(seed);
    const auto begin = std::chrono::steady_clock::now();
    // The memory is part of the work, as it is in torch.randperm.
    std::vector<std::int64_t> order(count);
    lockstep::randperm(generator, order);
    const auto end = std::chrono::steady_clock::now();
    best = std::min(best, std::chrono::duration<double>(end - begin).count());
    digest = 0xcbf29ce484222325ULL;
    for (const std::int64_t index : order) {
      digest = (digest ^ static_cast<std::uint64_t>(index)) * 0x100000001b3ULL;
    }
  }
  std::printf("%.6f %016" PRIx64 "\n", best, digest);
  return 0;
}
