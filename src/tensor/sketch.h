// Four signed sums of a tensor: enough to check that an average is right without keeping its values.
#pragma once

#include <array>
#include <cstdint>

namespace lockstep {

/// l1 = sum |x_i|; sums[j] = sum of +-x_i in f64, in index order, the sign of element i in projection j
/// being bit j of mix((i + 1) * G) (digest.h): bit set = minus.
///
/// Linear: the sketch of a mean is the mean of the sketches, up to rounding. That is what the law
/// gradient-mean uses (docs/laws.md).
struct Sketch {
  double l1 = 0.0;
  std::array<double, 4> sums{};

  friend bool operator==(const Sketch&, const Sketch&) = default;
};

}  // namespace lockstep
