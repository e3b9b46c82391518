#include "lockstep/tensor/sketch.h"

#include <algorithm>
#include <array>
#include <bit>
#include <fmt/core.h>
#include <utility>

#include "lockstep/base/check.h"
#include "lockstep/tensor/detail/clones.h"
#include "lockstep/tensor/detail/dispatch.h"
#include "lockstep/tensor/digest.h"

namespace lockstep {

namespace {

constexpr std::size_t kLanes = Sketch::kLanes;
constexpr std::size_t kPerWord = SketchSigns::kPerWord;

/// The signs of the elements from `first` on: bits 4i to 4i + 3 are those of element first + i.
constexpr std::uint64_t signs_of(std::size_t first) {
  std::uint64_t word = 0;
  for (std::size_t i = kPerWord; i-- > 0;) {
    word = (word << 4U) | (mix64((first + i + 1) * kGolden64) & 15U);
  }
  return word;
}

/// Most tensors are small, and mixing signs is a third of the work.
constexpr std::size_t kNFirst = 1024;
constexpr std::array<std::uint64_t, kNFirst / kPerWord> kFirstSigns = [] {
  std::array<std::uint64_t, kNFirst / kPerWord> words{};
  for (std::size_t w = 0; w < words.size(); ++w) words[w] = signs_of(w * kPerWord);
  return words;
}();

/// Vectors of kN. By reference throughout: how they are passed by value depends on the instruction
/// set.
template <std::size_t kN>
struct Vectors;

template <>
struct Vectors<4> {
  using Doubles [[gnu::vector_size(4 * sizeof(double))]] = double;
  using Words [[gnu::vector_size(4 * sizeof(std::uint64_t))]] = std::uint64_t;

  static constexpr Words kCount = {0, 1, 2, 3};
};

#ifdef LOCKSTEP_WIDE
template <>
struct Vectors<8> {
  using Doubles [[gnu::vector_size(8 * sizeof(double))]] = double;
  using Words [[gnu::vector_size(8 * sizeof(std::uint64_t))]] = std::uint64_t;

  static constexpr Words kCount = {0, 1, 2, 3, 4, 5, 6, 7};
};
#endif

/// z = mix64 of each key.
template <typename Words>
[[gnu::always_inline]] inline void mix(Words& z, const Words& key) {
  z = (key ^ (key >> 30U)) * kMixFirst;
  z = (z ^ (z >> 27U)) * kMixSecond;
  z ^= z >> 31U;
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

template <typename T>
using Block = std::array<T, kLanes>;

/// Writes n < 8 elements, then zeros. Not inlined: the compiler would build the lanes
/// one by one instead of loading them.
template <typename T>
[[gnu::noinline]] void copy_some(Block<T>& to, const T* x, std::size_t n) {
  to = {};
  for (std::size_t i = 0; i < n; ++i) to[i] = x[i];
}

/// Adds the lanes to `sum`, one after another. Written out: an index that varies would put them
/// into memory.
template <typename Sum, typename Vector, std::size_t... kAt>
[[gnu::always_inline]] inline void add_lanes(Sum& sum,
                                             const Vector& lanes,
                                             std::index_sequence<kAt...> /*at*/) {
  ((sum += lanes[kAt]), ...);
}

/// What has been seen of a tensor in kN of the eight lanes, from lane kFirst on: sm64, and the
/// sketch.
template <std::size_t kFirst, std::size_t kN>
struct Seen {
  using Doubles = typename Vectors<kN>::Doubles;
  using Words = typename Vectors<kN>::Words;

  static constexpr std::uint64_t kSign = 1ULL << 63U;

  Doubles l1{};
  Doubles first{};
  Doubles second{};
  Doubles third{};
  Doubles fourth{};
  Words digest{};
  Words key = (Vectors<kN>::kCount + (kFirst + 1)) * kGolden64;  // Of the next eight elements.

  /// `z`: bits that, shifted to the left by up, up - 1, ..., become the signs.
  [[gnu::always_inline]] inline void project(const Words& bits, const Words& z, const Words& up) {
    l1 += reinterpret_cast<Doubles>(bits & ~kSign);
    first += reinterpret_cast<Doubles>(bits ^ ((z << up) & kSign));
    second += reinterpret_cast<Doubles>(bits ^ ((z << (up - 1)) & kSign));
    third += reinterpret_cast<Doubles>(bits ^ ((z << (up - 2)) & kSign));
    fourth += reinterpret_cast<Doubles>(bits ^ ((z << (up - 3)) & kSign));
  }

  /// The lanes of eight elements as doubles, whose digest is taken where `exist` is all ones.
  template <typename T>
  [[gnu::always_inline]] inline void load(Words& values, const T* x, const Words& exist) {
    Doubles doubles;
    Words bits;
    for (std::size_t i = 0; i < kN; ++i) {
      doubles[i] = static_cast<double>(detail::load(x[kFirst + i]));
    }
    for (std::size_t i = 0; i < kN; ++i) bits[i] = bits_of(x[kFirst + i]);
    values = reinterpret_cast<Words>(doubles);
    Words z;
    mix(z, bits + key);
    digest += z & exist;
    key += kGolden64 * kLanes;
  }

  /// Eight elements whose signs are in `word` from bit kLow on.
  template <std::size_t kLow, typename T>
  [[gnu::always_inline]] inline void take_signed(const T* x, std::uint64_t word) {
    const Words up = (63 - kLow - 4 * kFirst) - Vectors<kN>::kCount * 4;
    Words values;
    load(values, x, ~Words{});
    project(values, Words{} + word, up);
  }

  /// Eight elements whose signs are not known yet.
  template <typename T>
  [[gnu::always_inline]] inline void take(const T* x, const Words& exist) {
    Words values;
    Words z;
    mix(z, key);
    load(values, x, exist);
    project(values, z, Words{} + 63U);
  }

  /// All n elements: those for which there are signs, then the others. Where fewer than eight are
  /// left, zeros make them eight: they change no sum of the sketch, since no partial sum is ever
  /// -0.
  template <typename T>
  [[gnu::always_inline]] inline void take_all(const T* x,
                                              std::size_t n,
                                              std::span<const std::uint64_t> signs) {
    const std::size_t n_words = std::min(n / kPerWord, signs.size());
    for (std::size_t w = 0; w < n_words; ++w, x += kPerWord) {
      take_signed<0>(x, signs[w]);
      take_signed<32>(x + kLanes, signs[w]);
    }
    std::size_t n_left = n - n_words * kPerWord;
    for (; n_left >= kLanes; n_left -= kLanes, x += kLanes) take(x, ~Words{});
    if (n_left == 0) return;
    Block<T> rest;
    copy_some(rest, x, n_left);
    take(
        rest.data(),
        reinterpret_cast<Words>(Vectors<kN>::kCount + kFirst < static_cast<std::uint64_t>(n_left)));
  }

  [[gnu::always_inline]] inline void add_to(TensorFingerprint& print) const {
    constexpr auto kAll = std::make_index_sequence<kN>();
    add_lanes(print.digest, digest, kAll);
    add_lanes(print.sketch.l1, l1, kAll);
    add_lanes(print.sketch.sums[0], first, kAll);
    add_lanes(print.sketch.sums[1], second, kAll);
    add_lanes(print.sketch.sums[2], third, kAll);
    add_lanes(print.sketch.sums[3], fourth, kAll);
  }
};

template <std::size_t kFirst, std::size_t kN, typename T>
[[gnu::always_inline]] inline void fingerprint_lanes(TensorFingerprint& print,
                                                     const T* x,
                                                     std::size_t n,
                                                     std::span<const std::uint64_t> signs) {
  Seen<kFirst, kN> seen;
  seen.take_all(x, n, signs);
  seen.add_to(print);
}

/// With registers of four doubles: half of the lanes, then the other half.
template <typename T>
[[gnu::always_inline]] inline void fingerprint_halves(TensorFingerprint& print,
                                                      const T* x,
                                                      std::size_t n,
                                                      std::span<const std::uint64_t> signs) {
  fingerprint_lanes<0, 4>(print, x, n, signs);
  fingerprint_lanes<4, 4>(print, x, n, signs);
}

LOCKSTEP_NARROW void fingerprint_all(TensorFingerprint& print,
                                     const float* x,
                                     std::size_t n,
                                     std::span<const std::uint64_t> signs) {
  fingerprint_halves(print, x, n, signs);
}

LOCKSTEP_NARROW void fingerprint_all(TensorFingerprint& print,
                                     const double* x,
                                     std::size_t n,
                                     std::span<const std::uint64_t> signs) {
  fingerprint_halves(print, x, n, signs);
}

#ifdef LOCKSTEP_WIDE
LOCKSTEP_WIDE void fingerprint_all(TensorFingerprint& print,
                                   const float* x,
                                   std::size_t n,
                                   std::span<const std::uint64_t> signs) {
  fingerprint_lanes<0, 8>(print, x, n, signs);
}

LOCKSTEP_WIDE void fingerprint_all(TensorFingerprint& print,
                                   const double* x,
                                   std::size_t n,
                                   std::span<const std::uint64_t> signs) {
  fingerprint_lanes<0, 8>(print, x, n, signs);
}
#endif

template <typename T>
LOCKSTEP_ONE_COPY void fingerprint_all(TensorFingerprint& print,
                                       const T* x,
                                       std::size_t n,
                                       std::span<const std::uint64_t> signs) {
  fingerprint_halves(print, x, n, signs);
}

/// Fewer elements than lanes: each is its lane's sum. Registers would be filled for nothing.
template <typename T>
LOCKSTEP_ONE_COPY void fingerprint_few(TensorFingerprint& print, const T* x, std::size_t n) {
  constexpr std::uint64_t kSign = 1ULL << 63U;
  for (std::size_t i = 0; i < n; ++i) {
    const auto bits = std::bit_cast<std::uint64_t>(static_cast<double>(detail::load(x[i])));
    const std::uint64_t signs = kFirstSigns[0] >> (4 * i);
    print.digest += mix64(bits_of(x[i]) + (i + 1) * kGolden64);
    print.sketch.l1 += std::bit_cast<double>(bits & ~kSign);
    for (std::size_t j = 0; j < print.sketch.sums.size(); ++j) {
      print.sketch.sums[j] += std::bit_cast<double>(bits ^ ((signs << (63 - j)) & kSign));
    }
  }
}

/// Fills `words` with the signs of the elements from `first` on.
LOCKSTEP_CLONES void mix_signs(std::uint64_t* words, std::size_t n_words, std::size_t first) {
  for (std::size_t w = 0; w < n_words; ++w) words[w] = signs_of(first + w * kPerWord);
}

}  // namespace

void SketchSigns::grow(std::size_t n) {
  const std::size_t n_known = words_.size();
  words_.resize((std::min(n, kMost) + kPerWord - 1) / kPerWord);
  if (words_.size() == n_known) return;
  mix_signs(words_.data() + n_known, words_.size() - n_known, n_known * kPerWord);
}

Sketch sketch_of(const void* data, std::int64_t n_elems, DType dtype, SketchSigns* signs) {
  return fingerprint_of(data, n_elems, dtype, signs).sketch;
}

TensorFingerprint fingerprint_of(const void* data,
                                 std::int64_t n_elems,
                                 DType dtype,
                                 SketchSigns* signs) {
  LOCKSTEP_CHECK(
      is_floating(dtype),
      fmt::format(
          "a sketch of {} {}: only floating-point tensors have one", n_elems, name_of(dtype)));
  const auto n = static_cast<std::size_t>(n_elems);
  std::span<const std::uint64_t> known = kFirstSigns;
  if (n > kNFirst && signs != nullptr) known = signs->of_first(n);
  TensorFingerprint print;
  const auto fingerprint = [&](const auto* x) {
    n < kLanes ? fingerprint_few(print, x, n) : fingerprint_all(print, x, n, known);
  };
  switch (dtype) {
    case DType::kF64:
      fingerprint(static_cast<const double*>(data));
      break;
    case DType::kF16:
      fingerprint(static_cast<const detail::Half*>(data));
      break;
    case DType::kBF16:
      fingerprint(static_cast<const detail::BFloat*>(data));
      break;
    default:
      fingerprint(static_cast<const float*>(data));
      break;
  }
  return print;
}

}  // namespace lockstep
