// Explains a reduced gradient as a weighted sum of the local ones: the arithmetic of gradient-mean.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/laws/causes.h"
#include "lockstep/tensor/dtype.h"
#include "lockstep/tensor/sketch.h"

namespace lockstep::laws {

/// One tensor of one reduction: its local sketches, rank after rank, and the reduced one.
struct OneReduction {
  std::vector<const Sketch*> locals;  ///< Null = undefined on that rank: contributes zero.
  const Sketch* reduced = nullptr;
  std::int64_t n_elems = 0;
  DType dtype = DType::kF32;
  std::int64_t n_added_before = 0;  ///< Additions that made each local gradient, at most.
};

/// Weights as fractions: weight r = numerators[r] / denominator, so that exact arithmetic stays
/// exact.
struct Weights {
  std::vector<double> numerators;
  double denominator = 1.0;

  std::vector<double> values() const;
  static Weights uniform(std::size_t n, double numerator, double denominator);
};

/// Whether `reduced` is the weighted sum of the locals: bit-equal sums when `exact`, else within
/// k u / (1 - k u) L + 4 n 2^-53 L with k = N + 1 roundings (each local one, N - 1 additions, the
/// division) and those before, L = sum of |weight| * l1, plus one half unit of the smallest number per
/// element and operation. Sketches that are not finite decide nothing and pass.
bool explains(const Weights& weights, const OneReduction& reduction, bool exact);

/// What a broken mean looks like.
struct Fit {
  Weights weights;
  std::string message;
  Cause cause = Cause::kNone;
  std::optional<std::int32_t> culprit;  ///< Position of the rank that was lost or counted twice.
};

/// The simplest explanation of all `reductions` together, if there is one: plain mean, sum, divided
/// twice, one rank lost, one rank twice, the declared weights times a factor, and at last a
/// least-squares fit of one weight per rank.
std::optional<Fit> fit(std::span<const OneReduction> reductions,
                       const Weights& declared,
                       bool exact);

}  // namespace lockstep::laws
