// The only file that includes Eigen, compiled under its own namespace (-DEigen=LockstepEigen):
// a consumer that uses Eigen with other flags would otherwise share inline code with it and crash.
#include <algorithm>

#include <Eigen/Core>

#include "lockstep/kernels/detail/products.h"

namespace lockstep::detail {

namespace {

template <typename T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Rows of a product that are computed at a time.
///
/// Eigen clears the result and then adds to it. One that no cache holds, of few factors each, would
/// mostly wait for memory, twice. Parts of it give the same bits, because Eigen takes rows in fours: so
/// do parts, and the last one has what is left over.
template <typename Out>
Eigen::Index rows_at_a_time(const Out& out, Eigen::Index n_factors) {
  constexpr Eigen::Index kCached = Eigen::Index{1} << 18U;  // Bytes.
  constexpr Eigen::Index kFewFactors = 64;  // From here on computing takes longer than waiting.
  constexpr Eigen::Index kGroup = 4;
  const auto row_bytes = out.cols() * static_cast<Eigen::Index>(sizeof(typename Out::Scalar));
  const Eigen::Index n = std::max(kCached / row_bytes / kGroup, Eigen::Index{1}) * kGroup;
  return n_factors < kFewFactors ? n : out.rows();
}

template <typename Out, typename A, typename B>
void assign(Out& out, const A& a, const B& b, bool accumulate) {
  if (accumulate) {
    out.noalias() += a * b;
    return;
  }
  const Eigen::Index part = rows_at_a_time(out, a.cols());
  Eigen::Index first = 0;
  for (; out.rows() - first >= 2 * part; first += part) {
    out.middleRows(first, part).noalias() = a.middleRows(first, part) * b;
  }
  const Eigen::Index rest = out.rows() - first;
  out.middleRows(first, rest).noalias() = a.middleRows(first, rest) * b;
}

template <typename T>
void multiply(const Product<T>& p) {
  using Input = Eigen::Map<const Matrix<T>>;
  Eigen::Map<Matrix<T>> out(p.out, p.m, p.n);
  const Input a(p.a, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k);
  const Input b(p.b, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n);
  if (p.transpose_a && p.transpose_b)
    return assign(out, a.transpose(), b.transpose(), p.accumulate);
  if (p.transpose_a) return assign(out, a.transpose(), b, p.accumulate);
  if (p.transpose_b) return assign(out, a, b.transpose(), p.accumulate);
  assign(out, a, b, p.accumulate);
}

}  // namespace

void large_product(const Product<float>& product) { multiply(product); }

void large_product(const Product<double>& product) { multiply(product); }

void pin_cache_sizes() {
  constexpr std::ptrdiff_t kKib = 1024;
  static const bool pinned = [] {
    Eigen::setCpuCacheSizes(32 * kKib, 512 * kKib, 4096 * kKib);
    return true;
  }();
  static_cast<void>(pinned);
}

}  // namespace lockstep::detail
