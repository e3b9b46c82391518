#include "lockstep/tensor/sketch.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "lockstep/base/check.h"
#include "lockstep/tensor/detail/clones.h"
#include "lockstep/tensor/detail/dispatch.h"
#include "lockstep/tensor/digest.h"

namespace lockstep {

namespace {

// By reference throughout: how eight lanes are passed by value depends on the instruction set.
using Doubles [[gnu::vector_size(Sketch::kLanes * sizeof(double))]] = double;
using Words [[gnu::vector_size(Sketch::kLanes * sizeof(std::uint64_t))]] = std::uint64_t;

/// mix64 of the first elements' keys: most tensors are small, and mixing is a third of the work.
constexpr std::size_t kNMixed = 1024;
constexpr std::array<std::uint64_t, kNMixed> kMixed = [] {
  std::array<std::uint64_t, kNMixed> mixed{};
  for (std::size_t i = 0; i < kNMixed; ++i) mixed[i] = mix64((i + 1) * kGolden64);
  return mixed;
}();

constexpr Words kFirstKeys = kGolden64 * Words{1, 2, 3, 4, 5, 6, 7, 8};

/// Eight lanes: partial sums of the magnitudes and of each projection.
struct Lanes {
  Doubles l1{};
  std::array<Doubles, 4> sums{};

  /// `z`: the elements' mixed keys.
  [[gnu::always_inline]] inline void take(const Doubles& x, const Words& z) {
    constexpr std::uint64_t kSign = 1ULL << 63U;
    const auto bits = reinterpret_cast<Words>(x);
    l1 += reinterpret_cast<Doubles>(bits & ~kSign);
    for (std::size_t j = 0; j < 4; ++j) {
      sums[j] += reinterpret_cast<Doubles>(bits ^ ((z << (63U - j)) & kSign));
    }
  }
};

/// z = mix64 of each key.
[[gnu::always_inline]] inline void mix(Words& z, const Words& key) {
  z = (key ^ (key >> 30U)) * kMixFirst;
  z = (z ^ (z >> 27U)) * kMixSecond;
  z ^= z >> 31U;
}

[[gnu::always_inline]] inline double total(const Doubles& lanes) {
  double sum = 0.0;
  for (std::size_t i = 0; i < Sketch::kLanes; ++i) sum += lanes[i];
  return sum;
}

/// Eight elements from `x` on, of which the first n exist; the others are zeros, which change no
/// sum, since no partial sum is ever -0.
template <typename T>
[[gnu::always_inline]] inline void load_eight(Doubles& values,
                                              const T* x,
                                              std::size_t n = Sketch::kLanes) {
  values = Doubles{};
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<double>(detail::load(x[i]));
}

/// Takes n elements, the first of which has the index `first`, a multiple of kLanes.
template <typename T>
[[gnu::always_inline]] inline void fold(Lanes& lanes,
                                        const T* x,
                                        std::size_t first,
                                        std::size_t n) {
  Lanes own = lanes;  // In registers.
  const std::size_t n_full = n - n % Sketch::kLanes;
  const std::size_t n_tabled = std::min(n_full, kNMixed - std::min(first, kNMixed));
  Doubles values;
  Words z;
  std::size_t i = 0;
  for (; i < n_tabled; i += Sketch::kLanes) {
    std::memcpy(&z, &kMixed[first + i], sizeof(z));
    load_eight(values, x + i);
    own.take(values, z);
  }
  Words key = kFirstKeys + kGolden64 * static_cast<std::uint64_t>(first + i);
  for (; i < n_full; i += Sketch::kLanes) {
    mix(z, key);
    load_eight(values, x + i);
    own.take(values, z);
    key += kGolden64 * Sketch::kLanes;
  }
  if (i < n) {
    mix(z, key);
    load_eight(values, x + i, n - i);
    own.take(values, z);
  }
  lanes = own;
}

LOCKSTEP_CLONES void take_all(Lanes& lanes, const float* x, std::size_t first, std::size_t n) {
  fold(lanes, x, first, n);
}

LOCKSTEP_CLONES void take_all(Lanes& lanes, const double* x, std::size_t first, std::size_t n) {
  fold(lanes, x, first, n);
}

template <typename T>
void take_all(Lanes& lanes, const T* x, std::size_t first, std::size_t n) {
  fold(lanes, x, first, n);
}

Sketch sum_of(const Lanes& lanes) {
  Sketch sketch;
  sketch.l1 = total(lanes.l1);
  for (std::size_t j = 0; j < 4; ++j) sketch.sums[j] = total(lanes.sums[j]);
  return sketch;
}

}  // namespace

Sketch sketch_of(const void* data, std::int64_t n_elems, DType dtype) {
  LOCKSTEP_CHECK(is_floating(dtype), "only floating-point tensors have a sketch");
  return detail::for_any(dtype, [&](auto tag) {
    Lanes lanes;
    take_all(lanes, static_cast<const decltype(tag)*>(data), 0, static_cast<std::size_t>(n_elems));
    return sum_of(lanes);
  });
}

Imprint imprint_of(const void* data, std::int64_t n_elems, DType dtype) {
  LOCKSTEP_CHECK(is_floating(dtype), "only floating-point tensors have a sketch");
  constexpr std::int64_t kBlock = 2048;  // Stays in the innermost cache; a multiple of kLanes.
  return detail::for_any(dtype, [&](auto tag) {
    const auto* const x = static_cast<const decltype(tag)*>(data);
    Lanes lanes;
    std::uint64_t digest = 0;
    for (std::int64_t first = 0; first < n_elems; first += kBlock) {
      const std::int64_t n = std::min(kBlock, n_elems - first);
      digest += sm64(x + first, n, dtype, static_cast<std::uint64_t>(first));
      take_all(lanes, x + first, static_cast<std::size_t>(first), static_cast<std::size_t>(n));
    }
    return Imprint{digest, sum_of(lanes)};
  });
}

}  // namespace lockstep
