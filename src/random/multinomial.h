// Draws of waiting times and of weighted places.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/random/generator.h"

namespace lockstep {

/// Fills `out` with exponential numbers, bit-equal to `tensor.exponential_(rate, generator=g)`.
///
/// Shapes: out is (n,), a tensor's elements in the order of its memory.
/// Requires: rate > 0.
/// Deterministic: two draws per element, of either type: floats are drawn as doubles and rounded.
///     Calls log of the C library. Equal to PyTorch without MKL, which has its own stream.
/// Source: PyTorch 1.13, ATen/core/TransformationHelper.h.
void exponential(Generator& generator, std::span<float> out, double rate = 1.0);
void exponential(Generator& generator, std::span<double> out, double rate = 1.0);

/// What multinomial() draws.
struct MultinomialOptions {
  std::int64_t count = 1;    ///< Places, 1 or more.
  bool replacement = false;  ///< Whether a place may be drawn again.
};

/// Draws places of `weights`, each in proportion to its weight, equal to
/// `torch.multinomial(weights, count, replacement, generator=g)` on f64.
///
/// With replacement each draw looks a uniform number up in the running sums. Without it each weight
/// is divided by its own exponential number and the largest `count` quotients win, the
/// largest first. (PyTorch 2 does so for a single draw with replacement, too, and draws exponential
/// numbers otherwise.)
///
/// Returns: `count` places, 0 .. weights.size()-1.
/// Errors: in PyTorch's words: no sample asked for; a negative or infinite weight; no positive one;
///     more samples than places without replacement. One of ours: fewer positive weights than
///     samples without replacement, where PyTorch fills up with places of weight 0 in no promised
///     order.
/// Deterministic: two draws per sample with replacement, two per weight otherwise.
/// Source: PyTorch 1.13, ATen/native/Distributions.cpp and cpu/MultinomialKernel.cpp; Efraimidis
///     and Spirakis, Information Processing Letters 97(5), 2006.
Result<std::vector<std::int64_t>> multinomial(Generator& generator,
                                              std::span<const double> weights,
                                              const MultinomialOptions& options);

}  // namespace lockstep
