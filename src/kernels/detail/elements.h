// Element-wise loops: the only place where the compiler learns that it may vectorise them in place.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/base/check.h"
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
