// The logarithm of a softmax over one row, which the layer and the loss share.
#pragma once

#include <cmath>
#include <cstdint>

#include "lockstep/kernels/detail/elements.h"

namespace lockstep::detail {

template <typename T>
Value<T> largest_of(const T* x, std::int64_t n) {
  Value<T> largest = load(x[0]);
  for (std::int64_t c = 1; c < n; ++c) largest = largest < load(x[c]) ? load(x[c]) : largest;
  return largest;
}

/// out[c] = x[c] - max - log(sum of exp(x - max)), c ascending. In 16 bits PyTorch keeps the sum and
/// its logarithm in a buffer of the element type.
template <typename T>
void log_softmax_row(T* out, const T* x, std::int64_t n) {
  const Value<T> largest = largest_of(x, n);
  Value<T> sum{0};
  for (std::int64_t c = 0; c < n; ++c) sum += std::exp(load(x[c]) - largest);
  const Value<T> log_sum = settled<T>(std::log(settled<T>(sum)));
  each(n, [=](std::int64_t c) { out[c] = rounded<T>(load(x[c]) - largest - log_sum); });
}

}  // namespace lockstep::detail
