#include "lockstep/tensor/sketch.h"

#include <algorithm>
#include <bit>

#include "lockstep/base/check.h"
#include "lockstep/tensor/detail/clones.h"
#include "lockstep/tensor/detail/dispatch.h"
#include "lockstep/tensor/digest.h"

namespace lockstep {

namespace {

// The eight lanes are two registers of four.
constexpr std::size_t kHalf = Sketch::kLanes / 2;
using Doubles [[gnu::vector_size(kHalf * sizeof(double))]] = double;
using Words [[gnu::vector_size(kHalf * sizeof(std::uint64_t))]] = std::uint64_t;

/// Four lanes: partial sums of the magnitudes and of each projection, and the next elements' keys.
struct Lanes {
  Doubles l1{};
  std::array<Doubles, 4> sums{};
  Words key{};

  [[gnu::always_inline]] inline void take(Doubles x) {
    constexpr std::uint64_t kSign = 1ULL << 63U;
    const Words bits = std::bit_cast<Words>(x);
    Words z = (key ^ (key >> 30U)) * kMixFirst;
    z = (z ^ (z >> 27U)) * kMixSecond;
    z ^= z >> 31U;
    l1 += std::bit_cast<Doubles>(bits & ~kSign);
    for (std::size_t j = 0; j < 4; ++j) {
      sums[j] += std::bit_cast<Doubles>(bits ^ ((z << (63U - j)) & kSign));
    }
    key += kGolden64 * Sketch::kLanes;
  }
};

double total(Doubles low, Doubles high) {
  double sum = 0.0;
  for (std::size_t i = 0; i < kHalf; ++i) sum += low[i];
  for (std::size_t i = 0; i < kHalf; ++i) sum += high[i];
  return sum;
}

/// Four elements from `x` on, of which the first n exist; the others are zeros, which change no
/// sum, since no partial sum is ever -0.
template <typename T>
[[gnu::always_inline]] inline Doubles four(const T* x, std::size_t n = kHalf) {
  Doubles values{};
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<double>(detail::load(x[i]));
  return values;
}

template <typename T>
[[gnu::always_inline]] inline Sketch fold(const T* x, std::int64_t n_elems) {
  Lanes low{.key = kGolden64 * Words{1, 2, 3, 4}};
  Lanes high{.key = kGolden64 * Words{5, 6, 7, 8}};
  auto rest = static_cast<std::size_t>(n_elems);
  for (; rest >= Sketch::kLanes; rest -= Sketch::kLanes, x += Sketch::kLanes) {
    low.take(four(x));
    high.take(four(x + kHalf));
  }
  low.take(four(x, std::min(rest, kHalf)));
  if (rest > kHalf) high.take(four(x + kHalf, rest - kHalf));
  Sketch sketch;
  sketch.l1 = total(low.l1, high.l1);
  for (std::size_t j = 0; j < 4; ++j) sketch.sums[j] = total(low.sums[j], high.sums[j]);
  return sketch;
}

LOCKSTEP_CLONES Sketch sketch_of(const float* x, std::int64_t n_elems) { return fold(x, n_elems); }

LOCKSTEP_CLONES Sketch sketch_of(const double* x, std::int64_t n_elems) { return fold(x, n_elems); }

template <typename T>
Sketch sketch_of(const T* x, std::int64_t n_elems) {
  return fold(x, n_elems);
}

}  // namespace

Sketch sketch_of(const void* data, std::int64_t n_elems, DType dtype) {
  LOCKSTEP_CHECK(is_floating(dtype), "only floating-point tensors have a sketch");
  return detail::for_any(
      dtype, [&](auto tag) { return sketch_of(static_cast<const decltype(tag)*>(data), n_elems); });
}

}  // namespace lockstep
