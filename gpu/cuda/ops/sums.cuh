// Sums in index order: one index of a functor runs the whole loop of one result, exactly as the
// contract of Kernels names it.
#pragma once

#include <array>

#include "lockstep/gpu/cuda/ops/math.cuh"
#include "lockstep/tensor/digest.h"
#include "lockstep/tensor/sketch.h"

namespace lockstep::cuda {

/// Column c of (n_rows, width): the first row, then the others one by one.
template <typename T>
struct SumRows {
  T* out;
  const T* in;
  std::int64_t n_rows;
  std::int64_t width;

  LOCKSTEP_BOTH void operator()(std::int64_t c) const {
    T sum = in[c];
    const T* const next = in + width + c;
    in_order(
        n_rows - 1, [&](std::int64_t row) { return next[row * width]; }, [&](T x) { sum += x; });
    out[c] = sum;
  }
};

/// Channel c of (outer, channels, inner), from +0.
template <typename T>
struct SumChannels {
  T* out;
  const T* in;
  std::int64_t outer;
  std::int64_t channels;
  std::int64_t inner;

  LOCKSTEP_BOTH void operator()(std::int64_t c) const {
    T sum{0};
    for (std::int64_t n = 0; n < outer; ++n) {
      const T* const plane = in + (n * channels + c) * inner;
      in_order(
          inner, [&](std::int64_t i) { return plane[i]; }, [&](T x) { sum += x; });
    }
    out[c] = sum;
  }
};

template <typename T>
struct SumAll {
  T* out;
  const T* in;
  std::int64_t n;

  LOCKSTEP_BOTH void operator()(std::int64_t /*one*/) const {
    T sum{0};
    in_order(
        n, [&](std::int64_t i) { return in[i]; }, [&](T value) { sum += value; });
    *out = sum;
  }
};

/// (sum of term(x - target), index ascending) / denominator.
template <typename T, bool kSquared>
struct LossOfDifference {
  T* out;
  const T* x;
  const T* target;
  std::int64_t n;
  T denominator;

  LOCKSTEP_BOTH void operator()(std::int64_t /*one*/) const {
    T sum{0};
    in_order(
        n,
        [&](std::int64_t i) { return x[i] - target[i]; },
        [&](T apart) { sum += kSquared ? apart * apart : magnitude_of(apart); });
    *out = sum / denominator;
  }
};

/// Element (row, column) of op(a) x op(b): one chain of fma over k ascending, from +0.
template <typename T>
struct ProductElement {
  T* out;
  const T* a;
  const T* b;
  std::int64_t n;
  std::int64_t k;
  std::int64_t a_row;  ///< Strides between rows and columns of op(a) and op(b).
  std::int64_t a_column;
  std::int64_t b_row;
  std::int64_t b_column;
  bool accumulate;

  LOCKSTEP_BOTH void operator()(std::int64_t i) const {
    const T* x = a + i / n * a_row;
    const T* y = b + i % n * b_column;
    T sum{0};
    in_order(
        k,
        [&](std::int64_t j) {
          return Pair<T>{x[j * a_column], y[j * b_row]};
        },
        [&](const Pair<T>& both) { sum = fused(both.a, both.b, sum); });
    out[i] = accumulate ? out[i] + sum : sum;
  }
};

/// Lane of Kernels::norm for p = 1 and 2: elements lane, lane + 8, ... in f64.
template <typename T, bool kSquared>
struct NormLane {
  static constexpr std::int64_t kLanes = 8;
  double* lanes;
  const T* in;
  std::int64_t n;

  LOCKSTEP_BOTH void operator()(std::int64_t lane) const {
    double sum = 0.0;
    in_order((n - lane + kLanes - 1) / kLanes,
             [&](std::int64_t i) { return static_cast<double>(in[lane + i * kLanes]); },
             [&](double value) {
               sum = kSquared ? fused(value, value, sum) : sum + magnitude_of(value);
             });
    lanes[lane] = sum;
  }
};

/// The largest magnitude of elements part, part + n_parts, ...; NaN wins. No order matters.
template <typename T>
struct LargestPart {
  double* parts;
  const T* in;
  std::int64_t n;
  std::int64_t n_parts;

  LOCKSTEP_BOTH void operator()(std::int64_t part) const {
    T largest{0};
    for (std::int64_t i = part; i < n; i += n_parts) {
      const T value = magnitude_of(in[i]);
      if (is_nan(value) || largest < value) largest = value;
      if (is_nan(largest)) break;
    }
    parts[part] = static_cast<double>(largest);
  }
};

/// sm64 of elements part, part + n_parts, ...; sums modulo 2^64 have no order.
template <typename Bits>
struct DigestPart {
  std::uint64_t* parts;
  const Bits* in;
  std::int64_t n;
  std::int64_t n_parts;
  std::uint64_t base;

  LOCKSTEP_BOTH void operator()(std::int64_t part) const {
    std::uint64_t sum = 0;
    for (std::int64_t i = part; i < n; i += n_parts) {
      sum += mix64(in[i] + (base + static_cast<std::uint64_t>(i) + 1) * kGolden64);
    }
    parts[part] = sum;
  }
};

/// One lane of one sum of a Sketch: index 8 * j + s is lane s of l1 (j = 0) or sums[j - 1].
template <typename T>
struct SketchLane {
  static constexpr std::int64_t kLanes = Sketch::kLanes;
  static constexpr std::int64_t kSums = 5;
  double* lanes;
  const T* in;
  std::int64_t n;

  LOCKSTEP_BOTH void operator()(std::int64_t index) const {
    const std::int64_t projection = index / kLanes - 1;
    double sum = 0.0;
    for (std::int64_t i = index % kLanes; i < n; i += kLanes) {
      const double value = static_cast<double>(detail::load(in[i]));
      if (projection < 0) {
        sum += magnitude_of(value);
      } else {
        const std::uint64_t mixed = mix64((static_cast<std::uint64_t>(i) + 1) * kGolden64);
        sum += (mixed >> static_cast<unsigned>(projection)) % 2 == 1 ? -value : value;
      }
    }
    lanes[index] = sum;
  }
};

/// finite[part] = whether elements part, part + n_parts, ... all are.
template <typename T>
struct FinitePart {
  double* parts;
  const T* in;
  std::int64_t n;
  std::int64_t n_parts;

  LOCKSTEP_BOTH void operator()(std::int64_t part) const {
    bool finite = true;
    for (std::int64_t i = part; i < n; i += n_parts) finite = finite && is_finite(in[i]);
    parts[part] = finite ? 1.0 : 0.0;
  }
};

}  // namespace lockstep::cuda
