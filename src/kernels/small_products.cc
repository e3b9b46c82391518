// Register-blocked products for matrices that fit in the first-level cache.
//
//   out tile: up to 4 rows (8 where only one vector is wide) x up to 2 vectors, all in registers;
//   per k:    load the row of b once, broadcast one element of a per row, one fma each.
#include <immintrin.h>

#include "lockstep/kernels/detail/products.h"

namespace lockstep::detail {

namespace {

template <typename T>
struct Lanes;

template <>
struct Lanes<float> {
  using Vector = __m256;
  using Mask = __m256i;
  static constexpr std::size_t kWidth = 8;

  static Vector zero() { return _mm256_setzero_ps(); }

  static Vector broadcast(const float* p) { return _mm256_broadcast_ss(p); }

  static Vector load(const float* p) { return _mm256_loadu_ps(p); }

  static Vector load(const float* p, Mask mask) { return _mm256_maskload_ps(p, mask); }

  static void store(float* p, Vector v) { _mm256_storeu_ps(p, v); }

  static void store(float* p, Mask mask, Vector v) { _mm256_maskstore_ps(p, mask, v); }

  static Vector add(Vector a, Vector b) { return _mm256_add_ps(a, b); }

  static Vector fma(Vector a, Vector b, Vector c) { return _mm256_fmadd_ps(a, b, c); }

  static Mask first(std::int64_t n) {
    const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), index);
  }
};

template <>
struct Lanes<double> {
  using Vector = __m256d;
  using Mask = __m256i;
  static constexpr std::size_t kWidth = 4;

  static Vector zero() { return _mm256_setzero_pd(); }

  static Vector broadcast(const double* p) { return _mm256_broadcast_sd(p); }

  static Vector load(const double* p) { return _mm256_loadu_pd(p); }

  static Vector load(const double* p, Mask mask) { return _mm256_maskload_pd(p, mask); }

  static void store(double* p, Vector v) { _mm256_storeu_pd(p, v); }

  static void store(double* p, Mask mask, Vector v) { _mm256_maskstore_pd(p, mask, v); }

  static Vector add(Vector a, Vector b) { return _mm256_add_pd(a, b); }

  static Vector fma(Vector a, Vector b, Vector c) { return _mm256_fmadd_pd(a, b, c); }

  static Mask first(std::int64_t n) {
    const __m256i index = _mm256_setr_epi64x(0, 1, 2, 3);
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), index);
  }
};

/// One tile of the output and the strides to walk a and b.
template <typename T>
struct Tile {
  T* out;
  const T* a;
  const T* b;
  std::int64_t n;  ///< Row stride of out and b.
  std::int64_t k;
  std::int64_t a_row;       ///< Stride between rows of op(a).
  std::int64_t a_k;         ///< Stride between columns of op(a).
  std::int64_t last_width;  ///< Columns in the last vector; the lane count when it is full.
  bool accumulate;
};

/// A row of up to two vectors, of which the last may be partial.
template <typename T, std::size_t kVectors, bool kMasked>
struct Strip {
  using L = Lanes<T>;
  using Vector = typename L::Vector;
  Vector v[kVectors];

  static Strip zero() {
    Strip strip{};
    for (Vector& vector : strip.v) vector = L::zero();
    return strip;
  }

  void load(const T* p, typename L::Mask mask) {
    for (std::size_t i = 0; i + 1 < kVectors; ++i) v[i] = L::load(p + i * L::kWidth);
    const T* const last = p + (kVectors - 1) * L::kWidth;
    v[kVectors - 1] = kMasked ? L::load(last, mask) : L::load(last);
  }

  void store(T* p, typename L::Mask mask) const {
    for (std::size_t i = 0; i + 1 < kVectors; ++i) L::store(p + i * L::kWidth, v[i]);
    T* const last = p + (kVectors - 1) * L::kWidth;
    if constexpr (kMasked) {
      L::store(last, mask, v[kVectors - 1]);
    } else {
      L::store(last, v[kVectors - 1]);
    }
  }

  void add_product(Vector factor, const Strip& columns) {
    for (std::size_t i = 0; i < kVectors; ++i) v[i] = L::fma(factor, columns.v[i], v[i]);
  }

  void add(const Strip& other) {
    for (std::size_t i = 0; i < kVectors; ++i) v[i] = L::add(other.v[i], v[i]);
  }
};

template <typename T, std::size_t kRows, std::size_t kVectors, bool kMasked>
void run_tile(const Tile<T>& t) {
  using Row = Strip<T, kVectors, kMasked>;
  const auto mask = Lanes<T>::first(t.last_width);
  Row acc[kRows];
  for (Row& row : acc) row = Row::zero();
  const T* a = t.a;
  const T* b = t.b;
  for (std::int64_t k = 0; k < t.k; ++k, a += t.a_k, b += t.n) {
    Row columns;
    columns.load(b, mask);
    const T* factor = a;
    for (Row& row : acc) {
      row.add_product(Lanes<T>::broadcast(factor), columns);
      factor += t.a_row;
    }
  }
  T* o = t.out;
  for (Row& row : acc) {
    if (t.accumulate) {
      Row before;
      before.load(o, mask);
      row.add(before);
    }
    row.store(o, mask);
    o += t.n;
  }
}

/// All rows of one column panel, `kMaxRows` at a time and the rest in halves.
template <typename T, std::size_t kMaxRows, std::size_t kVectors, bool kMasked>
void run_panel(Tile<T> tile, std::int64_t n_rows) {
  constexpr auto kRows = static_cast<std::int64_t>(kMaxRows);
  for (; n_rows >= kRows; n_rows -= kRows) {
    run_tile<T, kMaxRows, kVectors, kMasked>(tile);
    tile.a += kRows * tile.a_row;
    tile.out += kRows * tile.n;
  }
  if constexpr (kMaxRows > 1) {
    if (n_rows > 0) run_panel<T, kMaxRows / 2, kVectors, kMasked>(tile, n_rows);
  }
}

template <typename T>
void multiply(const Product<T>& p) {
  constexpr auto kWidth = static_cast<std::int64_t>(Lanes<T>::kWidth);
  Tile<T> tile{.out = p.out,
               .a = p.a,
               .b = p.b,
               .n = p.n,
               .k = p.k,
               .a_row = p.transpose_a ? 1 : p.k,
               .a_k = p.transpose_a ? p.m : 1,
               .last_width = kWidth,
               .accumulate = p.accumulate};
  std::int64_t rest = p.n;
  for (; rest >= 2 * kWidth; rest -= 2 * kWidth) {
    run_panel<T, 4, 2, false>(tile, p.m);
    tile.b += 2 * kWidth;
    tile.out += 2 * kWidth;
  }
  if (rest >= kWidth) {
    run_panel<T, 8, 1, false>(tile, p.m);
    tile.b += kWidth;
    tile.out += kWidth;
    rest -= kWidth;
  }
  if (rest > 0) {
    tile.last_width = rest;
    run_panel<T, 8, 1, true>(tile, p.m);
  }
}

void transpose_four(float* out, std::int64_t out_row, const float* in, std::int64_t in_row) {
  __m128 r0 = _mm_loadu_ps(in);
  __m128 r1 = _mm_loadu_ps(in + in_row);
  __m128 r2 = _mm_loadu_ps(in + 2 * in_row);
  __m128 r3 = _mm_loadu_ps(in + 3 * in_row);
  _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
  _mm_storeu_ps(out, r0);
  _mm_storeu_ps(out + out_row, r1);
  _mm_storeu_ps(out + 2 * out_row, r2);
  _mm_storeu_ps(out + 3 * out_row, r3);
}

void transpose_four(double* out, std::int64_t out_row, const double* in, std::int64_t in_row) {
  for (std::int64_t i = 0; i < 4; i += 2) {
    const __m256d low = _mm256_loadu_pd(in + i * in_row);
    const __m256d high = _mm256_loadu_pd(in + (i + 1) * in_row);
    const __m256d even = _mm256_unpacklo_pd(low, high);
    const __m256d odd = _mm256_unpackhi_pd(low, high);
    _mm_storeu_pd(out + i, _mm256_castpd256_pd128(even));
    _mm_storeu_pd(out + out_row + i, _mm256_castpd256_pd128(odd));
    _mm_storeu_pd(out + 2 * out_row + i, _mm256_extractf128_pd(even, 1));
    _mm_storeu_pd(out + 3 * out_row + i, _mm256_extractf128_pd(odd, 1));
  }
}

template <typename T>
void transpose_any(T* out, const T* in, std::int64_t n, std::int64_t k) {
  const std::int64_t whole_n = n / 4 * 4;
  const std::int64_t whole_k = k / 4 * 4;
  for (std::int64_t i = 0; i < whole_n; i += 4) {
    for (std::int64_t j = 0; j < whole_k; j += 4)
      transpose_four(out + j * n + i, n, in + i * k + j, k);
  }
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = i < whole_n ? whole_k : 0; j < k; ++j) out[j * n + i] = in[i * k + j];
  }
}

}  // namespace

void small_product(const Product<float>& product) { multiply(product); }

void small_product(const Product<double>& product) { multiply(product); }

void transpose(float* out, const float* in, std::int64_t n, std::int64_t k) {
  transpose_any(out, in, n, k);
}

void transpose(double* out, const double* in, std::int64_t n, std::int64_t k) {
  transpose_any(out, in, n, k);
}

}  // namespace lockstep::detail
