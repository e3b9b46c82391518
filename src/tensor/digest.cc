#include "lockstep/tensor/digest.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "lockstep/base/check.h"
#include "lockstep/tensor/detail/clones.h"

namespace lockstep {

namespace {

/// Sums mix64 over elements whose bits `word(i)` gives. The sum is modulo 2^64, so its order is
/// free and the loop is left to the vectoriser.
template <typename W>
[[gnu::always_inline]] inline std::uint64_t sum_mixed(std::int64_t n, std::uint64_t base, W word) {
  std::uint64_t sum = 0;
  std::uint64_t key = (base + 1) * kGolden64;
  for (std::int64_t i = 0; i < n; ++i, key += kGolden64) sum += mix64(word(i) + key);
  return sum;
}

template <typename U>
[[gnu::always_inline]] inline std::uint64_t plain(const void* data,
                                                  std::int64_t n,
                                                  std::uint64_t base) {
  const auto* const elements = static_cast<const std::byte*>(data);
  return sum_mixed(n, base, [=](std::int64_t i) -> std::uint64_t {
    U bits;
    std::memcpy(&bits, elements + i * static_cast<std::int64_t>(sizeof(U)), sizeof(U));
    return bits;
  });
}

/// The bit patterns of one floating-point format.
template <typename U>
struct Format {
  U sign;
  U infinity;
  U quiet_nan;
};

constexpr Format<std::uint64_t> kF64{1ULL << 63U, 0x7FF0000000000000ULL, 0x7FF8000000000000ULL};
constexpr Format<std::uint32_t> kF32{1U << 31U, 0x7F800000U, 0x7FC00000U};
constexpr Format<std::uint16_t> kF16{0x8000, 0x7C00, 0x7E00};
constexpr Format<std::uint16_t> kBF16{0x8000, 0x7F80, 0x7FC0};

// The hot widths: 64-bit products take one instruction with AVX-512 and a dozen without.
LOCKSTEP_CLONES std::uint64_t plain_32(const void* data, std::int64_t n, std::uint64_t base) {
  return plain<std::uint32_t>(data, n, base);
}

LOCKSTEP_CLONES std::uint64_t plain_64(const void* data, std::int64_t n, std::uint64_t base) {
  return plain<std::uint64_t>(data, n, base);
}

template <typename U>
[[gnu::always_inline]] inline std::uint64_t canonical(const void* data,
                                                      std::int64_t n,
                                                      const Format<U>& format,
                                                      std::uint64_t base) {
  const auto* const elements = static_cast<const std::byte*>(data);
  const Format<U> f = format;
  return sum_mixed(n, base, [=](std::int64_t i) -> std::uint64_t {
    U bits;
    std::memcpy(&bits, elements + i * static_cast<std::int64_t>(sizeof(U)), sizeof(U));
    const U magnitude = static_cast<U>(bits & static_cast<U>(~f.sign));
    const U settled = magnitude > f.infinity ? f.quiet_nan : bits;
    return magnitude == 0 ? U{0} : settled;
  });
}

LOCKSTEP_CLONES std::uint64_t canonical_f32(const void* data, std::int64_t n, std::uint64_t base) {
  return canonical(data, n, kF32, base);
}

LOCKSTEP_CLONES std::uint64_t canonical_f64(const void* data, std::int64_t n, std::uint64_t base) {
  return canonical(data, n, kF64, base);
}

}  // namespace

std::uint64_t sm64(const void* data, std::int64_t n_elems, DType dtype, std::uint64_t base) {
  switch (size_of(dtype)) {
    case 1:
      return plain<std::uint8_t>(data, n_elems, base);
    case 2:
      return plain<std::uint16_t>(data, n_elems, base);
    case 4:
      return plain_32(data, n_elems, base);
    default:
      return plain_64(data, n_elems, base);
  }
}

std::uint64_t sm64_canonical(const void* data,
                             std::int64_t n_elems,
                             DType dtype,
                             std::uint64_t base) {
  switch (dtype) {
    case DType::kF64:
      return canonical_f64(data, n_elems, base);
    case DType::kF32:
      return canonical_f32(data, n_elems, base);
    case DType::kF16:
      return canonical(data, n_elems, kF16, base);
    case DType::kBF16:
      return canonical(data, n_elems, kBF16, base);
    default:
      return sm64(data, n_elems, dtype, base);
  }
}

void digest_rows(const void* data, std::int64_t row_bytes, std::span<std::uint64_t> digests) {
  constexpr std::int64_t kWord = sizeof(std::uint64_t);
  const auto* row = static_cast<const std::byte*>(data);
  const auto n_left = static_cast<std::size_t>(row_bytes % kWord);
  for (std::uint64_t& digest : digests) {
    std::uint64_t mixed = static_cast<std::uint64_t>(row_bytes);
    std::int64_t at = 0;
    for (; at + kWord <= row_bytes; at += kWord) {
      std::uint64_t word = 0;
      std::memcpy(&word, row + at, kWord);
      mixed = mix64(mixed ^ word);
    }
    std::uint64_t last = 0;
    if (n_left > 0) std::memcpy(&last, row + at, n_left);
    digest = n_left > 0 ? mix64(mixed ^ last) : mixed;
    row += row_bytes;
  }
}

}  // namespace lockstep
