// Normally distributed draws, with PyTorch's two algorithms and its two kinds of float arithmetic.
#pragma once

#include <span>

#include "lockstep/random/generator.h"

namespace lockstep {

/// Of a normal distribution.
struct NormalShape {
  double mean = 0.0;
  double std = 1.0;  ///< At least 0.
};

/// Fills `out` with normal numbers, bit-equal to `tensor.normal_(mean, std, generator=g)` for a
/// contiguous tensor on a CPU with AVX2.
///
/// Fewer than 16 elements are drawn one by one in double arithmetic, which leaves the second half
/// of the last pair in the generator for the next such call. From 16 on, whole blocks of 16 uniform
/// numbers are transformed; when 16 does not divide n, the last 16 elements are drawn again.
///
/// Shapes: out is (n,), a tensor's elements in the order of its memory.
/// Requires: std >= 0.
/// Deterministic: a function of the generator's state and the arguments. Floats from 16 elements on
///     use our own arithmetic; the other cases call log, sin and cos of the C library, whose
///     last bit may differ between C libraries.
/// Source: Box and Muller, Annals of Mathematical Statistics 29(2), 1958; PyTorch 1.13,
///     ATen/native/cpu/DistributionTemplates.h; the polynomials are those of Cephes. Later releases
///     write log1p(-u) for log(1 - u) below 16 elements, which moves the last bit of some doubles.
void normal(Generator& generator, std::span<float> out, NormalShape shape = {});
void normal(Generator& generator, std::span<double> out, NormalShape shape = {});

}  // namespace lockstep
