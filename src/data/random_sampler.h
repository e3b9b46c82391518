// The order of samples without ranks: what a plain loader with shuffle=True uses.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/random/generator.h"

namespace lockstep::data {

/// PyTorch's arguments of RandomSampler.
struct RandomSamplerOptions {
  std::int64_t size = 0;   ///< Samples in the data set.
  std::int64_t count = 0;  ///< Samples to yield an epoch; PyTorch's default is `size`.
  bool replacement = false;
};

/// One epoch of random samples.
///
/// Draws its seed from `outer` (two draws), as PyTorch does from the global generator, and
/// everything else from its own generator. That is why two ranks whose global generators agree see
/// the same samples: this sampler does not know about ranks.
///
/// Returns: `count` indices: permutation after permutation, or independent draws.
/// Errors: a count or size below 1, in PyTorch's words.
/// Deterministic: a function of the options and the state of `outer`.
/// Source: PyTorch 1.13, torch/utils/data/sampler.py, RandomSampler.
Result<std::vector<std::int64_t>> random_order(Generator& outer,
                                               const RandomSamplerOptions& options);

/// 0 .. size-1: SequentialSampler. Requires: size >= 0.
std::vector<std::int64_t> sequential_order(std::int64_t size);

}  // namespace lockstep::data
