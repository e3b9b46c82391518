// Element-wise loops: the only place where the compiler learns that it may vectorise them in place.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "lockstep/base/check.h"
#include "lockstep/tensor/detail/dispatch.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::detail {

/// Calls f(i) for i in [0, n). An output may be the very same memory as an input, element for
/// element, never a shifted overlap; that is what the pragma promises to the vectoriser.
///
/// Packet and tail run the same IEEE operations, so no result depends on where memory starts.
template <typename F>
inline void each(std::int64_t n, F f) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) f(i);
}

/// Sets the processor's inexact flag: 2^24 + 1 is not an f32.
inline void raise_inexact() {
  volatile float whole = 0x1p24F;
  whole = whole + 1.0F;
}

/// A computed value as an element: the one rounding of an operation. Integer arithmetic rounds 16-bit
/// floats and sets no flag, so it is set here: exact mode watches it.
template <typename T>
inline T rounded(Value<T> value) {
  const T element = store<T>(value);
  if constexpr (kWrapped<T>) {
    const Value<T> kept = load(element);
    if (kept != value && !std::isnan(value)) raise_inexact();
  }
  return element;
}

/// What is left of a value that an operation of PyTorch's rounds on the way: itself in f32 and f64.
template <typename T>
inline Value<T> settled(Value<T> value) {
  return load(rounded<T>(value));
}

/// out = a + alpha * b, as PyTorch's add with a factor rounds it: fused. In 16 bits the factor is a
/// 16-bit number, too, and only whole steps of AVX2's vectorised loop are fused; what is left over
/// (kInTail) rounds its product.
template <typename T>
struct ScaledAdd {
  using V = Value<T>;

  explicit ScaledAdd(double factor) : alpha(settled<T>(static_cast<V>(factor))) {}

  template <bool kInTail>
  V of(V a, V b) const {
    if constexpr (kInTail && kWrapped<T>) return settled<T>(a + settled<T>(b * alpha));
    return settled<T>(std::fma(b, alpha, a));
  }

  V alpha;
};

constexpr std::int64_t kVectorStep = 32;  ///< 16-bit elements in one step of that loop.

/// Calls f.template operator()<kInTail>(i) for i in [0, n): the tail is what `ScaledAdd` means by it.
/// Blocks that are a multiple of kVectorStep may be given one after the other.
template <typename T, typename F>
inline void each_with_tail(std::int64_t n, F f) {
  const std::int64_t whole = kWrapped<T> ? n - n % kVectorStep : n;
  each(whole, [=](std::int64_t i) { f.template operator()<false>(i); });
  if constexpr (kWrapped<T>) {
    each(n - whole, [=](std::int64_t i) { f.template operator()<true>(whole + i); });
  }
}

/// What to say of element-wise operands that differ in their number of elements.
std::string unequal_counts(const Tensor& out, const Tensor& a);

/// The number of elements of operands that must agree.
inline std::int64_t agreed_elems(const Tensor& out, const Tensor& a) {
  LOCKSTEP_CHECK(out.n_elems() == a.n_elems(), unequal_counts(out, a));
  return out.n_elems();
}

inline std::int64_t agreed_elems(const Tensor& out, const Tensor& a, const Tensor& b) {
  LOCKSTEP_CHECK(out.n_elems() == b.n_elems(), unequal_counts(out, b));
  return agreed_elems(out, a);
}

}  // namespace lockstep::detail
