// Sets samples aside before training.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::data {

/// Sample ids of the two parts: disjoint, together 0 .. size-1.
struct Split {
  std::vector<std::int64_t> train;
  std::vector<std::int64_t> holdout;
};

/// Splits 0 .. size-1 at random: one permutation, whose last `holdout` entries are kept back.
///
/// Must run before the samples are dealt to ranks, with the same seed on all of them; a split a
/// rank leaks one rank's holdout into another's training.
///
/// Errors:        a holdout outside 0 .. size; a negative size.
/// Deterministic: a function of the arguments; equal to PyTorch's
///                `random_split(data, [size - holdout, holdout], generator.manual_seed(seed))`.
Result<Split> holdout_split(std::int64_t size, std::int64_t holdout, std::int64_t seed);

}  // namespace lockstep::data
