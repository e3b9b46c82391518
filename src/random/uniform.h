// Uniform real draws, element by element in memory order.
#pragma once

#include <cstdint>
#include <span>

#include "lockstep/random/generator.h"

namespace lockstep {

/// How `u * (to - from) + from` is rounded. PyTorch's own bits depend on the machine it was built
/// for, so both forms have a name.
enum class UniformRounding : std::uint8_t {
  kFused,  ///< Once, by a fused multiply-add: PyTorch where the CPU has AVX2.
  kTwice,  ///< After the product and after the sum: PyTorch with ATEN_CPU_CAPABILITY=default.
};

/// The interval a uniform draw falls into; rounding may produce `to` itself.
struct UniformRange {
  double from = 0.0;
  double to = 1.0;
};

/// Fills `out` with uniform numbers, bit-equal to `tensor.uniform_(from, to, generator=g)`.
///
/// The bounds are rounded to the element type first. A float takes one draw (24 bits of it), a
/// double two (53 bits).
///
/// Shapes: out is (n,), a tensor's elements in the order of its memory.
/// Requires: from <= to, both finite and at most the element type's maximum apart.
/// Deterministic: a function of the generator's state and the arguments; n (float) or 2n (double)
///     draws.
/// Source: PyTorch 1.13, ATen/core/TransformationHelper.h.
void uniform(Generator& generator,
             std::span<float> out,
             UniformRange range = {},
             UniformRounding rounding = UniformRounding::kFused);
void uniform(Generator& generator,
             std::span<double> out,
             UniformRange range = {},
             UniformRounding rounding = UniformRounding::kFused);

}  // namespace lockstep
