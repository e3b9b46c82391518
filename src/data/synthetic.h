// Data sets made from a seed: no files, any size, the same on every machine.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/base/enum_names.h"
#include "lockstep/base/error.h"
#include "lockstep/data/dataset.h"

namespace lockstep::data {

enum class SyntheticKind : std::uint8_t {
  kRegression,      ///< y = x . w + b + noise, x uniform in (-1, 1).
  kClassification,  ///< Points around one centre a class.
  kDyadic,          ///< Small whole features and targets: sums and products that never round.
  kRamp,            ///< Feature of sample i is 10 i, no targets: shows which samples a rank saw.
};

/// What rows to make up.
struct SyntheticOptions {
  SyntheticKind kind = SyntheticKind::kRegression;
  std::int64_t size = 64;
  std::int64_t features = 8;
  std::int64_t outputs = 1;  ///< Target columns, or classes.
  std::uint64_t seed = 0;
  std::vector<double> weights = {};  ///< Regression: (features, outputs) and no bias; empty: drawn.
  /// Half width of the uniform noise (regression), of a class (classification).
  double noise = 0.0;
};

/// Makes the data set.
///
/// kRegression: weights and biases from the seed in (-1, 1), the same for any size, and rows that
/// do not change when `size` grows, so a prefix of a larger set is the smaller set.
/// kClassification: centres in (-1, 1), labels i mod classes. kDyadic: features -2 .. 2, weights -2
/// .. 2, targets x . w
/// + a whole number in -1 .. 1; with power-of-two learning rates and batch sizes a linear model
/// then trains exactly. kRamp takes one feature and ignores seed and outputs.
///
/// Errors: a size, feature or output count below 1 (above 2^40 together); negative noise; weights
///     of another kind or number.
/// Deterministic: a function of the options; draws come from Generator streams of the seed, one for
///     the model and one for the rows; sums run left to right. Every feature is a float exactly.
Result<Dataset> make_synthetic(const SyntheticOptions& options);

}  // namespace lockstep::data

namespace lockstep {

template <>
inline constexpr EnumNames<4> kEnumNames<data::SyntheticKind> = {
    "regression", "classification", "dyadic", "ramp"};

}  // namespace lockstep
