// The tensor digest `sm64`: position-keyed, order-free to compute, sliceable.
#pragma once

#include <cstdint>
#include <span>

#include "lockstep/tensor/dtype.h"

namespace lockstep {

class Tensor;

constexpr std::uint64_t kMixFirst = 0xBF58476D1CE4E5B9ULL;
constexpr std::uint64_t kMixSecond = 0x94D049BB133111EBULL;

/// SplitMix64's finaliser.
constexpr std::uint64_t mix64(std::uint64_t z) {
  z = (z ^ (z >> 30U)) * kMixFirst;
  z = (z ^ (z >> 27U)) * kMixSecond;
  return z ^ (z >> 31U);
}

constexpr std::uint64_t kGolden64 = 0x9E3779B97F4A7C15ULL;

/// D(t, base) = sum over i of mix64(u_i + (base + i + 1) * kGolden64) mod 2^64, u_i being element
/// i's bits zero-extended, i its row-major index.
///
/// Sliceable: the digest of a bucket is the sum of its slices' digests taken at base = their
/// offset. dtype and shape are not part of it; events carry them. NaN and -0 are taken as they are.
std::uint64_t sm64(const void* data, std::int64_t n_elems, DType dtype, std::uint64_t base = 0);
/// As sm64, but with -0 read as +0 and every NaN as the quiet NaN (positive, zero payload): for
/// comparisons between implementations.
std::uint64_t sm64_canonical(const void* data,
                             std::int64_t n_elems,
                             DType dtype,
                             std::uint64_t base = 0);

/// A digest for each row of equally many bytes: h = their number, then h = mix64(h ^ word) for each word of eight, the
/// last one filled up with zeros. As quick for short rows as sm64 is for long ones.
void digest_rows(const void* data, std::int64_t row_bytes, std::span<std::uint64_t> digests);

}  // namespace lockstep
