// Matrix products for Kernels::gemm: our own for small sizes, Eigen's for real ones.
#pragma once

#include <cstdint>

namespace lockstep::detail {

/// out (m, n) = op(a) (m, k) x op(b) (k, n), row major, contiguous.
template <typename T>
struct Product {
  T* out;
  const T* a;
  const T* b;
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  bool transpose_a;
  bool transpose_b;
  bool accumulate;
};

/// Each element is one chain of fma over k ascending. Requires: b is not stored transposed.
void small_product(const Product<float>& product);
void small_product(const Product<double>& product);
/// out (k, n) = the transpose of in (n, k).
void transpose(float* out, const float* in, std::int64_t n, std::int64_t k);
void transpose(double* out, const double* in, std::int64_t n, std::int64_t k);

/// Eigen's blocked product.
void large_product(const Product<float>& product);
void large_product(const Product<double>& product);
/// Fixes Eigen's block sizes, which it would otherwise derive from this machine's caches.
void pin_cache_sizes();

}  // namespace lockstep::detail
