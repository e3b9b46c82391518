// How numbers of a type round, and whether a sketch of them says anything.
#pragma once

#include <algorithm>
#include <cmath>

#include "lockstep/tensor/dtype.h"
#include "lockstep/tensor/sketch.h"

namespace lockstep::laws {

/// Unit roundoff and smallest positive number of a type.
struct Precision {
  double unit = 0.0;
  double tiny = 0.0;
};

constexpr Precision precision_of(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return {0x1p-11, 0x1p-24};
    case DType::kBF16:
      return {0x1p-8, 0x1p-133};
    case DType::kF64:
      return {0x1p-53, 0x1p-1074};
    default:
      return {0x1p-24, 0x1p-149};
  }
}

/// Whether all values are finite.
inline bool is_finite(const Sketch& sketch) {
  return std::isfinite(sketch.l1) &&
         std::all_of(
             sketch.sums.begin(), sketch.sums.end(), [](double sum) { return std::isfinite(sum); });
}

}  // namespace lockstep::laws
