#include "lockstep/tensor/sketch.h"

#include <algorithm>
#include <array>
#include <bit>
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
using Floats [[gnu::vector_size(Sketch::kLanes * sizeof(float))]] = float;
using HalfWords [[gnu::vector_size(Sketch::kLanes * sizeof(float))]] = std::uint32_t;

/// mix64 of the first elements' keys: most tensors are small, and mixing is a third of the work.
constexpr std::size_t kNMixed = 1024;
constexpr std::array<std::uint64_t, kNMixed> kMixed = [] {
  std::array<std::uint64_t, kNMixed> mixed{};
  for (std::size_t i = 0; i < kNMixed; ++i) mixed[i] = mix64((i + 1) * kGolden64);
  return mixed;
}();

constexpr Words kPlaces = {0, 1, 2, 3, 4, 5, 6, 7};
constexpr Words kAll = ~Words{};
constexpr Words kFirstKeys = kGolden64 * Words{1, 2, 3, 4, 5, 6, 7, 8};

/// Eight lanes: partial sums of the magnitudes and of each projection.
struct Lanes {
  Doubles l1{};
  Doubles first{};
  Doubles second{};
  Doubles third{};
  Doubles fourth{};

  /// `z`: the elements' mixed keys.
  [[gnu::always_inline]] inline void take(const Doubles& x, const Words& z) {
    constexpr std::uint64_t kSign = 1ULL << 63U;
    const auto bits = reinterpret_cast<Words>(x);
    l1 += reinterpret_cast<Doubles>(bits & ~kSign);
    first += reinterpret_cast<Doubles>(bits ^ ((z << 63U) & kSign));
    second += reinterpret_cast<Doubles>(bits ^ ((z << 62U) & kSign));
    third += reinterpret_cast<Doubles>(bits ^ ((z << 61U) & kSign));
    fourth += reinterpret_cast<Doubles>(bits ^ ((z << 60U) & kSign));
  }
};

/// z = mix64 of each key.
[[gnu::always_inline]] inline void mix(Words& z, const Words& key) {
  z = (key ^ (key >> 30U)) * kMixFirst;
  z = (z ^ (z >> 27U)) * kMixSecond;
  z ^= z >> 31U;
}

/// Lane after lane, from 0. Written out: an index that varies would put the lanes into memory.
template <typename Vector>
[[gnu::always_inline]] inline auto total(const Vector& x) {
  static_assert(Sketch::kLanes == 8);
  return decltype(x[0] + x[0]){} + x[0] + x[1] + x[2] + x[3] + x[4] + x[5] + x[6] + x[7];
}

[[gnu::always_inline]] inline std::uint64_t bits_of(double x) {
  return std::bit_cast<std::uint64_t>(x);
}

[[gnu::always_inline]] inline std::uint64_t bits_of(float x) {
  return std::bit_cast<std::uint32_t>(x);
}

template <typename T>
[[gnu::always_inline]] inline std::uint64_t bits_of(T x) {
  return x.bits;
}

/// Eight elements as doubles, and their bits as sm64 reads them.
struct Eight {
  Doubles values{};
  Words bits{};
};

template <typename T>
[[gnu::always_inline]] inline void load_eight(Eight& eight, const T* x) {
  for (std::size_t i = 0; i < Sketch::kLanes; ++i) {
    eight.values[i] = static_cast<double>(detail::load(x[i]));
  }
  for (std::size_t i = 0; i < Sketch::kLanes; ++i) eight.bits[i] = bits_of(x[i]);
}

template <typename T>
using Block = std::array<T, Sketch::kLanes>;

/// Writes n < 8 elements, and zeros behind them. Not inlined: the compiler would build the lanes
/// one by one instead of loading them.
template <typename T>
[[gnu::noinline]] void copy_some(Block<T>& to, const T* x, std::size_t n) {
  to = {};
  for (std::size_t i = 0; i < n; ++i) to[i] = x[i];
}

/// What has been seen of a tensor: sm64 in eight lanes, and the sketch.
struct Seen {
  Lanes lanes;
  Words digest{};
  Words key = kFirstKeys;  // Of the next eight.

  /// `mixed`: mix64 of the elements' keys. `exist`: all ones where there is an element.
  [[gnu::always_inline]] inline void take(const Eight& eight,
                                          const Words& mixed,
                                          const Words& exist) {
    lanes.take(eight.values, mixed);
    Words z;
    mix(z, eight.bits + key);
    digest += z & exist;
    key += kGolden64 * Sketch::kLanes;
  }
};

/// Eight elements at a time. Where fewer are left, zeros make them eight: they change no sum of the
/// sketch, since no partial sum is ever -0.
template <typename T>
[[gnu::always_inline]] inline void fold(Seen& seen, const T* x, std::size_t n) {
  constexpr std::size_t kLanes = Sketch::kLanes;
  const std::size_t n_full = n - n % kLanes;
  Eight eight;
  Words mixed;
  std::size_t i = 0;
  for (; i < std::min(n_full, kNMixed); i += kLanes) {
    load_eight(eight, x + i);
    std::memcpy(&mixed, &kMixed[i], sizeof(mixed));
    seen.take(eight, mixed, kAll);
  }
  for (; i < n_full; i += kLanes) {
    load_eight(eight, x + i);
    mix(mixed, seen.key);
    seen.take(eight, mixed, kAll);
  }
  if (i == n) return;
  Block<T> rest;
  copy_some(rest, x + i, n - i);
  load_eight(eight, rest.data());
  mix(mixed, seen.key);
  seen.take(eight, mixed, reinterpret_cast<Words>(kPlaces < static_cast<std::uint64_t>(n - i)));
}

template <typename T>
[[gnu::always_inline]] inline void imprint(Imprint& print, const T* x, std::size_t n) {
  Seen seen;
  fold(seen, x, n);
  print.digest = total(seen.digest);
  print.sketch.l1 = total(seen.lanes.l1);
  print.sketch.sums = {total(seen.lanes.first),
                       total(seen.lanes.second),
                       total(seen.lanes.third),
                       total(seen.lanes.fourth)};
}

LOCKSTEP_CLONES void imprint_all(Imprint& print, const float* x, std::size_t n) {
  imprint(print, x, n);
}

LOCKSTEP_CLONES void imprint_all(Imprint& print, const double* x, std::size_t n) {
  imprint(print, x, n);
}

template <typename T>
void imprint_all(Imprint& print, const T* x, std::size_t n) {
  imprint(print, x, n);
}

}  // namespace

Sketch sketch_of(const void* data, std::int64_t n_elems, DType dtype) {
  return imprint_of(data, n_elems, dtype).sketch;
}

Imprint imprint_of(const void* data, std::int64_t n_elems, DType dtype) {
  LOCKSTEP_CHECK(is_floating(dtype), "only floating-point tensors have a sketch");
  const auto n = static_cast<std::size_t>(n_elems);
  Imprint print;
  switch (dtype) {
    case DType::kF64:
      imprint_all(print, static_cast<const double*>(data), n);
      break;
    case DType::kF16:
      imprint_all(print, static_cast<const detail::Half*>(data), n);
      break;
    case DType::kBF16:
      imprint_all(print, static_cast<const detail::BFloat*>(data), n);
      break;
    default:
      imprint_all(print, static_cast<const float*>(data), n);
      break;
  }
  return print;
}

}  // namespace lockstep
