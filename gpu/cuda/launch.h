// The launch shape of our element-wise kernels.
#pragma once

#include <algorithm>
#include <cstdint>

namespace lockstep::cuda {

constexpr int kBlockThreads = 256;

/// Blocks for n elements. Kernels loop with the grid's stride, so the cap changes speed, not
/// results.
constexpr int grid_blocks(std::int64_t n_elems) {
  constexpr std::int64_t kMostBlocks = 1024;
  return static_cast<int>(std::min((n_elems + kBlockThreads - 1) / kBlockThreads, kMostBlocks));
}

}  // namespace lockstep::cuda
