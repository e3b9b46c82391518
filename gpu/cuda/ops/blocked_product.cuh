// Matrix products from 64^3 multiplications on, in the order of the processor's kernel: Eigen 3.4's
// blocked product for vectors of 256 bits, under the cache sizes that our kernels pin.
#pragma once

#include "lockstep/gpu/cuda/ops/sums.cuh"

namespace lockstep::cuda {

/// How Eigen cuts a product. k is cut into blocks of `depth`, whose sums are added one after the
/// other. Within a block columns of the result differ in how they add, since they lie in panels of
/// three or two vectors, or of one or half a one, or in none.
struct ProductOrder {
  std::int64_t depth = 0;      ///< Of a block.
  std::int64_t n_chained = 0;  ///< Columns before this one are one chain of fma over k.
  std::int64_t n_paired = 0;   ///< Then up to this one: a chain of even k and one of odd k.
  std::int64_t m_fours = 0;    ///< Rows from here on: one chain in every column.

  /// Of op(a) (m, k) x op(b) (k, n). Requires: m > 1, n > 1 (the others are another routine's).
  template <typename T>
  static ProductOrder of(std::int64_t m, std::int64_t n, std::int64_t k) {
    constexpr std::int64_t kVector = 32 / sizeof(T);
    constexpr std::int64_t kPanel = 3 * kVector;
    constexpr std::int64_t kRows = 4;
    constexpr std::int64_t kPeeled = 8;
    constexpr std::int64_t kCache = (std::int64_t{32} << 10U) - kPanel * kRows * sizeof(T);
    constexpr std::int64_t kMost = kCache / ((kPanel + kRows) * sizeof(T)) / kPeeled * kPeeled;
    ProductOrder order;
    order.depth = std::max<std::int64_t>(k, 1);
    if (k > kMost) {  // Blocks about as deep as each other.
      const std::int64_t rest = k % kMost;
      const std::int64_t shorter = (kMost - 1 - rest) / (kPeeled * (k / kMost + 1));
      order.depth = rest == 0 ? kMost : kMost - kPeeled * shorter;
    }
    const std::int64_t tail = n % kPanel;
    order.n_chained = n - tail + (tail >= 2 * kVector ? 2 * kVector : 0);
    order.n_paired = order.n_chained + (n - order.n_chained) / (kVector / 2) * (kVector / 2);
    order.m_fours = m / kRows * kRows;
    return order;
  }
};

/// Element (row, column) of op(a) x op(b) in that order.
template <typename T>
struct BlockedProductElement {
  ProductElement<T> product;
  ProductOrder order;

  /// Adds products j in [first, last) to sum, j ascending by `step`.
  LOCKSTEP_BOTH T
  chain(const T* x, const T* y, std::int64_t first, std::int64_t last, T sum, int step = 1) const {
    for (std::int64_t j = first; j < last; j += step) {
      sum = fused(x[j * product.a_column], y[j * product.b_row], sum);
    }
    return sum;
  }

  LOCKSTEP_BOTH T paired(const T* x, const T* y, std::int64_t n) const {
    const std::int64_t whole = n / 8 * 8;
    const T even = chain(x, y, 0, whole, T{0}, 2);
    const T odd = chain(x, y, 1, whole, T{0}, 2);
    return chain(x, y, whole, n, even + odd);
  }

  /// Four accumulators, of two lanes each in f32 and of one in f64.
  LOCKSTEP_BOTH T in_fours(const T* x, const T* y, std::int64_t n) const {
    constexpr int kLanes = 8 / sizeof(T);
    constexpr int kStep = 4 * kLanes;
    const std::int64_t whole = n / kStep * kStep;
    const std::int64_t in_lanes = n / kLanes * kLanes;
    T lanes[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
      T sums[4];
      for (int s = 0; s < 4; ++s) sums[s] = chain(x, y, s * kLanes + lane, whole, T{0}, kStep);
      const T sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
      lanes[lane] = chain(x, y, whole + lane, in_lanes, sum, kLanes);
    }
    const T sum = kLanes == 1 ? lanes[0] : lanes[0] + lanes[kLanes - 1];
    return chain(x, y, in_lanes, n, sum);
  }

  LOCKSTEP_BOTH void operator()(std::int64_t i) const {
    const std::int64_t row = i / product.n;
    const std::int64_t column = i % product.n;
    const T* x = product.a + row * product.a_row;
    const T* y = product.b + column * product.b_column;
    T sum = product.accumulate ? product.out[i] : T{0};
    for (std::int64_t first = 0; first < product.k; first += order.depth) {
      const std::int64_t rest = product.k - first;
      const std::int64_t n = rest < order.depth ? rest : order.depth;
      if (column < order.n_chained || row >= order.m_fours) {
        sum += chain(x, y, 0, n, T{0});
      } else {
        sum += column < order.n_paired ? paired(x, y, n) : in_fours(x, y, n);
      }
      x += n * product.a_column;
      y += n * product.b_row;
    }
    product.out[i] = sum;
  }
};

}  // namespace lockstep::cuda
