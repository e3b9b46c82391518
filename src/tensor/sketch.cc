#include "lockstep/tensor/sketch.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <fmt/core.h>
#include <tuple>
#include <utility>

#include "lockstep/base/check.h"
#include "lockstep/tensor/detail/clones.h"
#include "lockstep/tensor/detail/dispatch.h"
#include "lockstep/tensor/digest.h"

namespace lockstep {

namespace {

constexpr std::size_t kLanes = Sketch::kLanes;
constexpr std::size_t kPerWord = SketchSigns::kPerWord;
constexpr std::size_t kNSums = std::tuple_size_v<decltype(Sketch::sums)>;
constexpr std::size_t kHalf = kLanes * kNSums;  ///< Bits of the signs of eight elements.

/// The signs of the elements from `first` on: bit 32 h + 8 j + s is the one of element
/// first + 8 h + s in projection j, so eight elements have a byte per projection.
constexpr std::uint64_t signs_of(std::size_t first) {
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < kPerWord; ++i) {
    const std::uint64_t mixed = mix64((first + i + 1) * kGolden64);
    const std::size_t at = i / kLanes * kHalf + i % kLanes;
    for (std::size_t j = 0; j < kNSums; ++j) word |= ((mixed >> j) & 1U) << (at + kLanes * j);
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

/// For each number of kN bits, kN factors: a bit that is set makes its factor minus one.
template <std::size_t kN>
struct alignas(kN * sizeof(double)) Factors {
  std::array<std::array<double, kN>, std::size_t{1} << kN> of{};
};

template <std::size_t kN>
constexpr Factors<kN> kFactors = [] {
  Factors<kN> factors;
  for (std::size_t bits = 0; bits < factors.of.size(); ++bits) {
    for (std::size_t i = 0; i < kN; ++i) factors.of[bits][i] = ((bits >> i) & 1U) != 0 ? -1 : 1;
  }
  return factors;
}();

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
using Block = std::array<T, kPerWord>;

/// Writes n < 16 elements, then zeros. Not inlined: the compiler would build the lanes
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

/// Fills `words` with the signs of the elements from `first` on.
LOCKSTEP_CLONES void mix_signs(std::uint64_t* words, std::size_t n_words, std::size_t first) {
  for (std::size_t w = 0; w < n_words; ++w) words[w] = signs_of(first + w * kPerWord);
}

/// What has been seen of a tensor in kN of the eight lanes, from lane kFirst on: sm64, and the
/// sketch.
template <std::size_t kFirst, std::size_t kN>
struct Seen {
  using Doubles = typename Vectors<kN>::Doubles;
  using Words = typename Vectors<kN>::Words;

  Doubles l1{};
  Doubles first{};
  Doubles second{};
  Doubles third{};
  Doubles fourth{};
  Words digest{};
  Words key = (Vectors<kN>::kCount + (kFirst + 1)) * kGolden64;  // Of the next eight elements.

  /// Adds each lane's element, or what it is with its sign changed. The product is exact, and one
  /// instruction makes it and adds it.
  template <std::size_t kFrom>
  [[gnu::always_inline]] static inline void add_signed(Doubles& sum,
                                                       const Doubles& doubles,
                                                       std::uint64_t signs) {
    constexpr std::uint64_t kAll = (std::uint64_t{1} << kN) - 1;
    const auto& factors = kFactors<kN>.of[(signs >> (kFrom + kFirst)) & kAll];
    for (std::size_t i = 0; i < kN; ++i) sum[i] = std::fma(doubles[i], factors[i], sum[i]);
  }

  /// Eight elements whose signs are the lower half of `signs`. Those of which `exist` is not all
  /// ones are zeros that do not count.
  template <typename T>
  [[gnu::always_inline]] inline void take(const T* x, std::uint64_t signs, const Words& exist) {
    constexpr std::uint64_t kSign = 1ULL << 63U;
    Doubles doubles;
    Words bits;
    for (std::size_t i = 0; i < kN; ++i) {
      doubles[i] = static_cast<double>(detail::load(x[kFirst + i]));
    }
    for (std::size_t i = 0; i < kN; ++i) bits[i] = bits_of(x[kFirst + i]);
    Words z;
    mix(z, bits + key);
    digest += z & exist;
    key += kGolden64 * kLanes;
    l1 += reinterpret_cast<Doubles>(reinterpret_cast<Words>(doubles) & ~kSign);
    add_signed<0>(first, doubles, signs);
    add_signed<kLanes>(second, doubles, signs);
    add_signed<2 * kLanes>(third, doubles, signs);
    add_signed<3 * kLanes>(fourth, doubles, signs);
  }

  /// Sixteen elements for each word of signs.
  template <typename T>
  [[gnu::always_inline]] inline void take_words(const T* x, std::span<const std::uint64_t> signs) {
    for (const std::uint64_t word : signs) {
      take(x, word, ~Words{});
      take(x + kLanes, word >> kHalf, ~Words{});
      x += kPerWord;
    }
  }

  /// The last n < 16 elements. Zeros make them sixteen: they change no sum of the sketch, since no
  /// partial sum is ever -0.
  template <typename T>
  [[gnu::always_inline]] inline void take_rest(const T* x, std::size_t n, std::uint64_t word) {
    Block<T> rest;
    copy_some(rest, x, n);
    const Words at = Vectors<kN>::kCount + kFirst;
    take(rest.data(), word, reinterpret_cast<Words>(at < n));
    if (n > kLanes) take(&rest[kLanes], word >> kHalf, reinterpret_cast<Words>(at + kLanes < n));
  }

  /// The elements from `from` on, as far as `signs` go. Returns where it stopped: n is the end.
  template <typename T>
  [[gnu::always_inline]] inline std::size_t take_known(const T* x,
                                                       std::size_t from,
                                                       std::size_t n,
                                                       std::span<const std::uint64_t> signs) {
    const std::size_t n_whole = std::min((n - from) / kPerWord, signs.size());
    take_words(x + from, signs.first(n_whole));
    const std::size_t at = from + n_whole * kPerWord;
    if (at == n || n_whole == signs.size()) return at;
    take_rest(x + at, n - at, signs[n_whole]);
    return n;
  }

  /// All n elements, for the first of which there are signs.
  template <typename T>
  [[gnu::always_inline]] inline void take_all(const T* x,
                                              std::size_t n,
                                              std::span<const std::uint64_t> signs) {
    std::size_t at = take_known(x, 0, n, signs);
    while (at < n) {
      std::array<std::uint64_t, 64> mixed{};
      mix_signs(mixed.data(), mixed.size(), at);
      at = take_known(x, at, n, mixed);
    }
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
    const std::uint64_t signs = kFirstSigns[0] >> i;
    print.digest += mix64(bits_of(x[i]) + (i + 1) * kGolden64);
    print.sketch.l1 += std::bit_cast<double>(bits & ~kSign);
    for (std::size_t j = 0; j < print.sketch.sums.size(); ++j) {
      print.sketch.sums[j] += std::bit_cast<double>(bits ^ ((signs << (63 - kLanes * j)) & kSign));
    }
  }
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
