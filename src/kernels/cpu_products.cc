#include <algorithm>
#include <fmt/core.h>

#include "lockstep/kernels/detail/cpu.h"
#include "lockstep/kernels/detail/elements.h"
#include "lockstep/kernels/detail/products.h"
#include "lockstep/tensor/detail/dispatch.h"

namespace lockstep::detail {

namespace {

constexpr std::int64_t kEigenFrom =
    std::int64_t{64} * 64 * 64;  // Multiplications; below, Eigen's set-up dominates.

/// Memory for one operand, from the pool and back to it: never on a rank's small stack.
template <typename T>
class Scratch {
 public:
  Scratch(Pool& pool, std::int64_t n_elems)
      : pool_(&pool),
        n_bytes_(static_cast<std::size_t>(std::max<std::int64_t>(n_elems, 1)) * sizeof(T)),
        data_(static_cast<T*>(pool.allocate(n_bytes_))) {}

  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  Scratch(Scratch&&) = delete;
  Scratch& operator=(Scratch&&) = delete;

  ~Scratch() { pool_->release(data_, n_bytes_); }

  T* data() const { return data_; }

 private:
  Pool* pool_;
  std::size_t n_bytes_;
  T* data_;
};

/// Sizes and options; the operands are still missing. Inlined in each product: small ones are frequent.
template <typename T>
[[gnu::always_inline]] inline Product<T> describe(const Tensor& out,
                                                  const Tensor& a,
                                                  const Tensor& b,
                                                  const Kernels::Gemm& options) {
  const std::size_t a_rows = options.transpose_a ? 1 : 0;
  const std::size_t b_rows = options.transpose_b ? 1 : 0;
  const std::int64_t m = a.size(a_rows);
  const std::int64_t k = a.size(1 - a_rows);
  const std::int64_t n = b.size(1 - b_rows);
  LOCKSTEP_CHECK(b.size(b_rows) == k,
                 fmt::format("cannot multiply {} by {}: the inner sizes {} and {} differ",
                             a.text(),
                             b.text(),
                             k,
                             b.size(b_rows)));
  LOCKSTEP_CHECK(
      out.size(0) == m && out.size(1) == n,
      fmt::format("the product of {} and {} does not fit {}", a.text(), b.text(), out.text()));
  return {.out = nullptr,
          .a = nullptr,
          .b = nullptr,
          .m = m,
          .n = n,
          .k = k,
          .transpose_a = options.transpose_a,
          .transpose_b = options.transpose_b,
          .accumulate = options.accumulate};
}

template <typename T>
[[gnu::always_inline]] inline void multiply(Product<T> product, Pool& pool) {
  const auto [m, n, k] = std::array{product.m, product.n, product.k};
  if (m == 0 || n == 0) return;
  if (m * n * k >= kEigenFrom) return large_product(product);
  if (!product.transpose_b || k == 0) return small_product(product);
  product.transpose_b = false;
  if (n == 1 || k == 1) return small_product(product);  // The transpose has the same memory.
  const Scratch<T> scratch(pool, n * k);
  transpose(scratch.data(), product.b, n, k);
  product.b = scratch.data();
  small_product(product);
}

/// Operands as they are.
template <typename T>
void multiply_tensors(const Tensor& out,
                      const Tensor& a,
                      const Tensor& b,
                      const Kernels::Gemm& options) {
  Product<T> product = describe<T>(out, a, b, options);
  product.out = out.write<T>();
  product.a = a.read<T>();
  product.b = b.read<T>();
  multiply(product, out.runtime().pool());
}

template <typename T>
void widen(float* wide, const Tensor& tensor) {
  const T* const x = tensor.read<T>();
  each(tensor.n_elems(), [=](std::int64_t i) { wide[i] = load(x[i]); });
}

/// 16-bit operands in f32: products are exact, sums round as in an f32 product, and each element of
/// the result rounds once, after what it is added to. Apart from its caller, whose f32 path stays short.
template <typename T>
[[gnu::noinline]] void multiply_narrow(const Tensor& out,
                                       const Tensor& a,
                                       const Tensor& b,
                                       const Kernels::Gemm& options) {
  Product<float> product = describe<float>(out, a, b, options);
  product.accumulate = false;
  Pool& pool = out.runtime().pool();
  const Scratch<float> wide_out(pool, out.n_elems());
  const Scratch<float> wide_a(pool, a.n_elems());
  const Scratch<float> wide_b(pool, b.n_elems());
  widen<T>(wide_a.data(), a);
  widen<T>(wide_b.data(), b);
  product.out = wide_out.data();
  product.a = wide_a.data();
  product.b = wide_b.data();
  multiply(product, pool);
  const float* const sum = product.out;
  T* const o = out.write<T>();
  if (options.accumulate) {
    each(out.n_elems(), [=](std::int64_t i) { o[i] = rounded<T>(load(o[i]) + sum[i]); });
  } else {
    each(out.n_elems(), [=](std::int64_t i) { o[i] = rounded<T>(sum[i]); });
  }
}

}  // namespace

void CpuKernels::gemm(const Tensor& out, const Tensor& a, const Tensor& b, const Gemm& options) {
  LOCKSTEP_CHECK(out.shape().n_dims() == 2 && a.shape().n_dims() == 2 && b.shape().n_dims() == 2,
                 fmt::format("a matrix product takes and gives matrices, not {} and {} into {}",
                             a.text(),
                             b.text(),
                             out.text()));
  for_real(out.dtype(), [&](auto tag) {
    using T = decltype(tag);
    if constexpr (kWrapped<T>) {
      multiply_narrow<T>(out, a, b, options);
    } else {
      multiply_tensors<T>(out, a, b, options);
    }
  });
}

}  // namespace lockstep::detail
