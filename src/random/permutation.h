// Random permutations, the heart of every shuffling sampler.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/random/generator.h"

namespace lockstep {

/// From this size on present PyTorch releases draw 64-bit numbers and shuffle downwards; 1.13
/// [checked with its build] still shuffles upwards there: call shuffle_upwards() for its bits.
inline constexpr std::int64_t kLargePermutation = 214748364;

/// Writes a permutation of 0 .. n-1, bit-equal to `torch.randperm(n, generator=g)` on the CPU.
///
/// Shapes: out is (n,).
/// Deterministic: a function of n and the generator's state; takes n-1 draws (none for n <= 1), or
///     2n draws from kLargePermutation on.
/// Source: Knuth, TAOCP volume 2, algorithm P (Fisher-Yates), upwards; from kLargePermutation on
///     its inside-out form. PyTorch, ATen/native/TensorFactories.cpp.
void randperm(Generator& generator, std::span<std::int64_t> out);

/// The same as a vector. Requires: n >= 0.
std::vector<std::int64_t> randperm(Generator& generator, std::int64_t n);

/// The two algorithms of randperm(), exposed so that the large one can be tested at small sizes.
void shuffle_upwards(Generator& generator, std::span<std::int64_t> out);  ///< Requires: n < 2^32.
void shuffle_inside_out(Generator& generator, std::span<std::int64_t> out);

}  // namespace lockstep
