// What functors compute with, on both the device and the host.
//
// A functor does the work of one index: operator()(i) writes what belongs to i and nothing that
// another index reads or writes. So threads may take indices in any order and give the same bits,
// and a loop on the host gives them, too.
#pragma once

#include <cmath>
#include <cstdint>

#include "lockstep/gpu/cuda/fault.h"
#include "lockstep/tensor/detail/dispatch.h"

#define LOCKSTEP_BOTH __host__ __device__

namespace lockstep::cuda {

/// The type in which an element computes: 16-bit floats in f32.
template <typename T>
using Value = decltype(detail::load(T{}));

// The one fused operation and the library's functions. A test compiles kernels without them
// (LOCKSTEP_UNFUSED), where no fma may be left: those that are left came from contraction.
#ifdef LOCKSTEP_UNFUSED

template <typename T>
LOCKSTEP_BOTH T fused(T a, T b, T c) {
  return a * b + c;
}

template <typename T>
LOCKSTEP_BOTH T exp_of(T x) {
  return x;
}

template <typename T>
LOCKSTEP_BOTH T log_of(T x) {
  return x;
}

template <typename T>
LOCKSTEP_BOTH T tanh_of(T x) {
  return x;
}

template <typename T>
LOCKSTEP_BOTH T erf_of(T x) {
  return x;
}

#else

/// a * b + c, rounded once.
LOCKSTEP_BOTH inline float fused(float a, float b, float c) { return ::fmaf(a, b, c); }

LOCKSTEP_BOTH inline double fused(double a, double b, double c) { return ::fma(a, b, c); }

// Not bit-equal between the device and the C library; docs/gpu.md bounds them.
LOCKSTEP_BOTH inline float exp_of(float x) { return ::expf(x); }

LOCKSTEP_BOTH inline double exp_of(double x) { return ::exp(x); }

LOCKSTEP_BOTH inline float log_of(float x) { return ::logf(x); }

LOCKSTEP_BOTH inline double log_of(double x) { return ::log(x); }

LOCKSTEP_BOTH inline float tanh_of(float x) { return ::tanhf(x); }

LOCKSTEP_BOTH inline double tanh_of(double x) { return ::tanh(x); }

LOCKSTEP_BOTH inline float erf_of(float x) { return ::erff(x); }

LOCKSTEP_BOTH inline double erf_of(double x) { return ::erf(x); }

#endif

// Correctly rounded on both sides.
LOCKSTEP_BOTH inline float root_of(float x) { return ::sqrtf(x); }

LOCKSTEP_BOTH inline double root_of(double x) { return ::sqrt(x); }

LOCKSTEP_BOTH inline float nearest_of(float x) { return ::nearbyintf(x); }

LOCKSTEP_BOTH inline double nearest_of(double x) { return ::nearbyint(x); }

LOCKSTEP_BOTH inline float magnitude_of(float x) { return ::fabsf(x); }

LOCKSTEP_BOTH inline double magnitude_of(double x) { return ::fabs(x); }

template <typename T>
LOCKSTEP_BOTH bool is_nan(T x) {
  return x != x;
}

template <typename T>
LOCKSTEP_BOTH bool is_finite(T x) {
  return x - x == T{0};
}

/// What one step of a sum reads.
template <typename T>
struct Pair {
  T a;
  T b;
};

/// Calls take(load(i)) for i = 0 .. n - 1, in order. The loads of a batch are under way together, so that
/// one thread's sum does not wait for memory at every step; its bits are those of the plain loop.
template <typename Load, typename Take>
LOCKSTEP_BOTH void in_order(std::int64_t n, const Load& load, const Take& take) {
  constexpr int kBatch = 16;
  std::int64_t i = 0;
  for (; i + kBatch <= n; i += kBatch) {
    decltype(load(i)) batch[kBatch];
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (int j = 0; j < kBatch; ++j) batch[j] = load(i + j);
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (int j = 0; j < kBatch; ++j) take(batch[j]);
  }
  for (; i < n; ++i) take(load(i));
}

}  // namespace lockstep::cuda
