// Products of a matrix and a vector from 64^3 multiplications on, in the order of the processor's
// kernel: Eigen 3.4's for vectors of 256 bits.
#pragma once

#include "lockstep/gpu/cuda/ops/sums.cuh"

namespace lockstep::cuda {

/// How Eigen adds up, which depends on how the matrix lies in memory.
struct VectorOrder {
  bool dots = false;         ///< Along k: each result is a dot product in lanes. Else across it.
  std::int64_t depth = 0;    ///< Across: of a block of k.
  std::int64_t n_fused = 0;  ///< Across: later results round products and sums separately.
  std::int64_t n_even = 0;   ///< Dots: a last result after these takes half a vector more.

  /// Of n results. `dots`: the matrix's rows along k lie one after the other.
  template <typename T>
  static VectorOrder of(std::int64_t n, std::int64_t k, bool dots) {
    constexpr std::int64_t kHalf = 16 / sizeof(T);
    constexpr std::int64_t kWhole = 128;
    constexpr std::int64_t kFarApart = 32'000;  // Bytes between neighbours along k.
    const std::int64_t block = n * static_cast<std::int64_t>(sizeof(T)) < kFarApart ? 16 : 4;
    return {dots, k < kWhole ? k : block, n / kHalf * kHalf, n / 2 * 2};
  }
};

/// Result i of a product in that order; one of its m and n is 1.
template <typename T>
struct VectorProductElement {
  static constexpr int kLanes = 32 / sizeof(T);

  ProductElement<T> product;
  VectorOrder order;

  LOCKSTEP_BOTH T at(const T* x, std::int64_t j) const { return x[j * product.a_column]; }

  LOCKSTEP_BOTH T with(const T* y, std::int64_t j) const { return y[j * product.b_row]; }

  /// The sum of kLanes or kLanes / 2 lanes: halves onto each other until one is left.
  LOCKSTEP_BOTH static T folded(T* lanes, int n) {
    for (int half = n / 2; half > 0; half /= 2) {
      for (int lane = 0; lane < half; ++lane) lanes[lane] = lanes[lane] + lanes[lane + half];
    }
    return lanes[0];
  }

  /// Adds products from `first` on in n_lanes lanes, as long as all lanes have one.
  LOCKSTEP_BOTH T
  in_lanes(const T* x, const T* y, std::int64_t first, std::int64_t last, int n_lanes) const {
    T lanes[kLanes];
    for (int lane = 0; lane < n_lanes; ++lane) {
      T sum{0};
      for (std::int64_t j = first + lane; j < last; j += n_lanes) {
        sum = fused(at(x, j), with(y, j), sum);
      }
      lanes[lane] = sum;
    }
    return folded(lanes, n_lanes);
  }

  LOCKSTEP_BOTH T dot(const T* x, const T* y, bool with_half) const {
    const std::int64_t k = product.k;
    std::int64_t j = k / kLanes * kLanes;
    T sum = in_lanes(x, y, 0, j, kLanes);
    if (with_half) {
      const std::int64_t first = j;
      j = k / (kLanes / 2) * (kLanes / 2);
      sum += in_lanes(x, y, first, j, kLanes / 2);
    }
    for (; j < k; ++j) sum += at(x, j) * with(y, j);
    return sum;
  }

  /// A block of products across k.
  LOCKSTEP_BOTH T
  block(const T* x, const T* y, std::int64_t first, std::int64_t last, bool fuse) const {
    T sum{0};
    for (std::int64_t j = first; j < last; ++j) {
      sum = fuse ? fused(at(x, j), with(y, j), sum) : sum + at(x, j) * with(y, j);
    }
    return sum;
  }

  LOCKSTEP_BOTH void operator()(std::int64_t i) const {
    const T* const x = product.a + i / product.n * product.a_row;
    const T* const y = product.b + i % product.n * product.b_column;
    T sum = product.accumulate ? product.out[i] : T{0};
    if (order.dots) {
      sum += dot(x, y, i >= order.n_even);
    } else {
      for (std::int64_t first = 0; first < product.k; first += order.depth) {
        const std::int64_t end = first + order.depth;
        sum += block(x, y, first, end < product.k ? end : product.k, i < order.n_fused);
      }
    }
    product.out[i] = sum;
  }
};

}  // namespace lockstep::cuda
