// Four signed sums of a tensor: enough to check that an average is right without keeping its
// values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/tensor/dtype.h"

namespace lockstep {

/// l1 = sum |x_i|; sums[j] = sum of +-x_i in f64, the sign of element i in projection j being bit j
/// of mix64((i + 1) * kGolden64) (digest.h): bit set = minus.
///
/// Order: lane s = i mod 8 adds its elements with i ascending, from +0; then the eight lanes are
/// added with s ascending, from +0. It depends on i alone, never on addresses. Linear: the sketch
/// of a mean is the mean of the sketches, up to rounding. That is what the law gradient-mean uses
/// (docs/laws.md).
struct Sketch {
  static constexpr std::size_t kLanes = 8;

  double l1 = 0.0;
  std::array<double, 4> sums{};

  friend bool operator==(const Sketch&, const Sketch&) = default;
};

/// A tensor's digest (base 0) and its sketch.
struct TensorFingerprint {
  std::uint64_t digest = 0;
  Sketch sketch = {};

  friend bool operator==(const TensorFingerprint&, const TensorFingerprint&) = default;
};

/// The signs of the first elements, four bits each, for callers that sketch repeatedly: mixing them
/// is a third of the work.
class SketchSigns {
 public:
  static constexpr std::size_t kPerWord = 16;
  static constexpr std::size_t kMost = std::size_t{1} << 22U;  ///< Two megabytes of signs.

  /// Those of the first `n` elements, as far as they are kept.
  std::span<const std::uint64_t> of_first(std::size_t n) {
    if (n > words_.size() * kPerWord) grow(n);
    return words_;
  }

 private:
  void grow(std::size_t n);

  std::vector<std::uint64_t> words_;
};

/// The sketch of n_elems elements. `signs`: null, or what is used and grows.
/// Requires: a floating-point dtype (16-bit formats are widened).
Sketch sketch_of(const void* data, std::int64_t n_elems, DType dtype, SketchSigns* signs = nullptr);
/// The same and sm64, block by block, so that memory is read once.
TensorFingerprint fingerprint_of(const void* data,
                                 std::int64_t n_elems,
                                 DType dtype,
                                 SketchSigns* signs = nullptr);

}  // namespace lockstep
