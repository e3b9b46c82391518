// Draws from finite sets: masks of zeros and ones, and integers.
#pragma once

#include <cstdint>
#include <span>

#include "lockstep/random/generator.h"

namespace lockstep {

/// Fills `out` with 1 where a uniform draw falls below `p`, else 0: bit-equal to
/// `tensor.bernoulli_(p, generator=g)` of a PyTorch built without MKL (MKL has a stream of its
/// own).
///
/// Shapes: out is (n,), a tensor's elements in the order of its memory.
/// Requires: 0 <= p <= 1.
/// Deterministic: a function of the generator's state and p; two draws per element, of either type.
/// Source: PyTorch 1.13, ATen/native/cpu/DistributionTemplates.h.
void bernoulli(Generator& generator, std::span<float> out, double p);
void bernoulli(Generator& generator, std::span<double> out, double p);

/// The half-open interval integers are drawn from.
struct IntegerRange {
  std::int64_t from = 0;
  std::int64_t to = 1;
};

/// Fills `out` with integers of [from, to), bit-equal to `tensor.random_(from, to, generator=g)`
/// and `torch.randint` on int64. All are equally likely up to the bias of a remainder.
///
/// Requires: from < to.
/// Deterministic: one 32-bit draw per element below 2^32 integers, else a 64-bit one. Releases
///     after 1.13 change over at 2^28.
/// Source: PyTorch 1.13, ATen/core/DistributionsHelper.h.
void randint(Generator& generator, std::span<std::int64_t> out, IntegerRange range);

/// Fills `out` with integers from 0 to the largest up to which the element type holds every integer
/// (int64: its maximum), bit-equal to `tensor.random_(generator=g)`.
///
/// Deterministic: one 32-bit draw a float, one 64-bit draw the others.
void random_integers(Generator& generator, std::span<std::int64_t> out);
void random_integers(Generator& generator, std::span<float> out);
void random_integers(Generator& generator, std::span<double> out);

}  // namespace lockstep
