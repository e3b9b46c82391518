#include "lockstep/random/uniform.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <fmt/core.h>
#include <limits>

#include "lockstep/base/check.h"

namespace lockstep {
namespace {

constexpr std::size_t kBlock = 256;

template <typename T>
void check_range(UniformRange range) {
  constexpr double kMax = std::numeric_limits<T>::max();
  LOCKSTEP_CHECK(range.from >= -kMax && range.to <= kMax,
                 fmt::format("uniform bounds must be finite, not {} and {}", range.from, range.to));
  LOCKSTEP_CHECK(
      range.from <= range.to,
      fmt::format("uniform bounds must be in order, not {} and {}", range.from, range.to));
  LOCKSTEP_CHECK(range.to - range.from <= kMax,
                 fmt::format("the uniform range from {} to {} is wider than the type's maximum",
                             range.from,
                             range.to));
}

template <typename T>
void stretch(std::span<T> units, UniformRange range, UniformRounding rounding) {
  const T from = static_cast<T>(range.from);
  const T width = static_cast<T>(range.to) - from;
  if (rounding == UniformRounding::kFused) {
    for (T& unit : units) unit = std::fma(unit, width, from);
  } else {
    for (T& unit : units) unit = unit * width + from;
  }
}

}  // namespace

void uniform(Generator& generator,
             std::span<float> out,
             UniformRange range,
             UniformRounding rounding) {
  check_range<float>(range);
  std::array<std::uint32_t, kBlock> draws{};
  while (!out.empty()) {
    const std::size_t n = std::min(kBlock, out.size());
    generator.fill(std::span(draws).first(n));
    for (std::size_t j = 0; j < n; ++j) {
      out[j] = static_cast<float>(static_cast<std::int32_t>(draws[j] & 0xffffffU)) * 0x1p-24F;
    }
    stretch(out.first(n), range, rounding);
    out = out.subspan(n);
  }
}

void uniform(Generator& generator,
             std::span<double> out,
             UniformRange range,
             UniformRounding rounding) {
  check_range<double>(range);
  std::array<std::uint32_t, 2 * kBlock> draws{};
  constexpr std::uint64_t kMask = (std::uint64_t{1} << 53U) - 1;
  while (!out.empty()) {
    const std::size_t n = std::min(kBlock, out.size());
    generator.fill(std::span(draws).first(2 * n));
    for (std::size_t j = 0; j < n; ++j) {
      const std::uint64_t word = (std::uint64_t{draws[2 * j]} << 32U) | draws[2 * j + 1];
      out[j] = static_cast<double>(static_cast<std::int64_t>(word & kMask)) * 0x1p-53;
    }
    stretch(out.first(n), range, rounding);
    out = out.subspan(n);
  }
}

}  // namespace lockstep
