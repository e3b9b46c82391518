// The launch shape of our element-wise kernels.
#pragma once

#include <algorithm>
#include <cstdint>

namespace lockstep::cuda {

/// Threads of a block. Few indices are long sums, which spread over as many multiprocessors as there are.
constexpr int block_threads(std::int64_t n_elems) {
  constexpr std::int64_t kFew = std::int64_t{1} << 15;
  return n_elems < kFew ? 32 : 256;
}

/// Blocks for n elements. Kernels loop with the grid's stride, so the cap changes speed, not
/// results.
constexpr int grid_blocks(std::int64_t n_elems) {
  constexpr std::int64_t kMostBlocks = 1024;
  const std::int64_t threads = block_threads(n_elems);
  return static_cast<int>(std::min((n_elems + threads - 1) / threads, kMostBlocks));
}

}  // namespace lockstep::cuda
