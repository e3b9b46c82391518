// How far two tensors of one type and one shape are apart, element by element.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/formats/float_format.h"
#include "lockstep/formats/state_file.h"

namespace lockstep {

/// Elements are counted in row-major order.
struct TensorDistance {
  std::int64_t n_elements = 0;
  std::int64_t n_different = 0;             ///< In at least one bit.
  std::int64_t first = -1;                  ///< Of these; -1: none.
  std::int64_t n_beside_nan = 0;            ///< Of these: a NaN has no distance.
  std::optional<double> largest = {};       ///< Absolute difference; absent: no numbers to compare.
  std::int64_t largest_at = -1;             ///< The first element with it.
  std::optional<std::uint64_t> ulps = {};   ///< The most of any element; absent: as `largest`.
  std::int64_t ulps_at = -1;                ///< The first element with them.
  ElementType ulps_of = ElementType::kF32;  ///< Whose numbers were counted.
};

/// The distance of two stored tensors. Of types that do not round (integers, booleans), of complex
/// numbers and of 8-bit floats only the elements are counted.
/// Requires: one type, and equally many bytes.
/// Deterministic: a function of the bytes alone.
TensorDistance distance_between(const StoredTensor& left, const StoredTensor& right);

/// The distance of two lists of recorded values. `format` is that of the tensor; absent: unknown,
/// and ulps are not counted. Values of a trace do not keep the payload of a NaN: NaNs are equal.
/// Requires: equally many values.
TensorDistance distance_between(std::span<const double> left,
                                std::span<const double> right,
                                std::optional<FloatFormat> format);

/// "2 of 6 elements differ, by 0.25 at most, 524288 ulps of float32, at [1, 2]". `sizes` are those of
/// the tensor; empty: not known, and places are numbers of elements.
/// Requires: an element differs.
std::string text_of(const TensorDistance& distance, std::span<const std::int64_t> sizes);

/// "[3, 5]" of an element.
std::string place_text(std::span<const std::int64_t> sizes, std::int64_t element);

}  // namespace lockstep
