// Sets samples aside before training.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/random/generator.h"

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
/// Errors: a holdout outside 0 .. size; a negative size.
/// Deterministic: a function of the arguments; equal to PyTorch's
///     `random_split(data, [size - holdout, holdout], generator.manual_seed(seed))`.
Result<Split> holdout_split(std::int64_t size, std::int64_t holdout, std::int64_t seed);

/// How many samples each of several parts gets, given as fractions of the whole: rounded down, and
/// what is left over goes to the first parts, one each, round after round.
///
/// Errors: a fraction outside 0 .. 1, or fractions that do not sum to 1, in PyTorch's words.
Result<std::vector<std::int64_t>> split_lengths(std::int64_t size,
                                                std::span<const double> fractions);

/// Cuts one permutation of 0 .. size-1, drawn from `generator`, into parts of these lengths.
///
/// Lengths that sum to 1 are read as fractions: {1} is everything, as in PyTorch.
///
/// Errors: lengths that do not sum to `size`, in PyTorch's words; a negative length.
/// Deterministic: size - 1 draws, none where it fails.
/// Source: PyTorch 1.13, torch/utils/data/dataset.py, random_split.
Result<std::vector<std::vector<std::int64_t>>> random_split(Generator& generator,
                                                            std::int64_t size,
                                                            std::span<const std::int64_t> lengths);

}  // namespace lockstep::data
