#include "lockstep/random/normal.h"

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fmt/core.h>
#include <numbers>
#include <optional>

#include "lockstep/base/check.h"
#include "lockstep/random/uniform.h"

namespace lockstep {
namespace {

constexpr std::size_t kBlock = 16;
constexpr std::size_t kHalf = kBlock / 2;

// Where a sum follows a product below there is one rounding, as in the AVX2 build; the order of the
// terms is part of the result.
float log_of(float x) {
  constexpr float kPolynomial[] = {7.0376836292e-2F,
                                   -1.1514610310e-1F,
                                   1.1676998740e-1F,
                                   -1.2420140846e-1F,
                                   1.4249322787e-1F,
                                   -1.6668057665e-1F,
                                   2.0000714765e-1F,
                                   -2.4999993993e-1F,
                                   3.3333331174e-1F};
  constexpr float kLog2Low = -2.12194440e-4F;
  constexpr float kLog2High = 0.693359375F;

  const auto bits = std::bit_cast<std::uint32_t>(x);
  auto exponent = static_cast<float>(static_cast<std::int32_t>(bits >> 23U) - 126);
  const float mantissa = std::bit_cast<float>((bits & 0x007fffffU) | 0x3f000000U);
  float t = mantissa - 1.0F;
  if (mantissa < 0.707106781186547524F) {
    exponent -= 1.0F;
    t += mantissa;
  }
  const float z = t * t;
  float y = kPolynomial[0];
  for (std::size_t i = 1; i < std::size(kPolynomial); ++i) y = std::fma(y, t, kPolynomial[i]);
  y *= t;
  y = std::fma(y, z, exponent * kLog2Low);
  y -= z * 0.5F;
  return std::fma(exponent, kLog2High, t + y);
}

struct SinCos {
  float sin;
  float cos;
};

// Requires: angle >= 0.
SinCos sincos_of(float angle) {
  const std::int32_t octant =
      (static_cast<std::int32_t>(angle * 1.27323954473516F) + 1) & ~std::int32_t{1};
  const auto steps = static_cast<float>(octant);
  float x = std::fma(steps, -0.78515625F, angle);
  x = std::fma(steps, -2.4187564849853515625e-4F, x);
  x = std::fma(steps, -3.77489497744594108e-8F, x);
  const float z = x * x;

  float c = std::fma(2.443315711809948e-5F, z, -1.388731625493765e-3F);
  c = std::fma(c, z, 4.166664568298827e-2F) * z;
  c = std::fma(c, z, -(z * 0.5F)) + 1.0F;
  float s = std::fma(-1.9515295891e-4F, z, 8.3321608736e-3F);
  s = std::fma(s, z, -1.6666654611e-1F) * z;
  s = std::fma(s, x, x);

  const bool swapped = (octant & 2) != 0;
  const float sine = swapped ? c : s;
  const float cosine = swapped ? s : c;
  return {.sin = (octant & 4) != 0 ? -sine : sine,
          .cos = ((octant - 2) & 4) == 0 ? -cosine : cosine};
}

void transform(float* x, NormalShape shape) {
  constexpr auto kTwoPi = static_cast<float>(2.0 * std::numbers::pi);
  const auto mean = static_cast<float>(shape.mean);
  const auto std = static_cast<float>(shape.std);
  for (std::size_t j = 0; j < kHalf; ++j) {
    const float radius = std::sqrt(-2.0F * log_of(1.0F - x[j]));
    const auto [sine, cosine] = sincos_of(kTwoPi * x[j + kHalf]);
    x[j] = std::fma(radius * cosine, std, mean);
    x[j + kHalf] = std::fma(radius * sine, std, mean);
  }
}

void transform(double* x, NormalShape shape) {
  for (std::size_t j = 0; j < kHalf; ++j) {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - x[j]));
    const double angle = 2.0 * std::numbers::pi * x[j + kHalf];
    x[j] = std::fma(radius * std::cos(angle), shape.std, shape.mean);
    x[j + kHalf] = std::fma(radius * std::sin(angle), shape.std, shape.mean);
  }
}

double draw_unit(Generator& generator) {
  constexpr std::uint64_t kMask = (std::uint64_t{1} << 53U) - 1;
  return static_cast<double>(generator.random64() & kMask) * 0x1p-53;
}

double draw_one(Generator& generator) {
  if (const std::optional<double> kept = generator.take_cached_normal()) return *kept;
  const double u1 = draw_unit(generator);
  const double u2 = draw_unit(generator);
  const double radius = std::sqrt(-2.0 * std::log(1.0 - u2));
  const double angle = 2.0 * std::numbers::pi * u1;
  generator.cache_normal(radius * std::sin(angle));
  return radius * std::cos(angle);
}

template <typename T>
void fill(Generator& generator, std::span<T> out, NormalShape shape) {
  LOCKSTEP_CHECK(shape.std >= 0.0,
                 fmt::format("a standard deviation is at least 0, not {}", shape.std));
  if (out.size() < kBlock) {
    // One rounding, as in the AVX2 build; the double is rounded once more for a float.
    for (T& value : out) {
      value = static_cast<T>(std::fma(draw_one(generator), shape.std, shape.mean));
    }
    return;
  }
  uniform(generator, out);
  for (std::size_t i = 0; i + kBlock <= out.size(); i += kBlock) transform(&out[i], shape);
  if (out.size() % kBlock != 0) {
    const std::span<T> last = out.last(kBlock);
    uniform(generator, last);
    transform(last.data(), shape);
  }
}

}  // namespace

void normal(Generator& generator, std::span<float> out, NormalShape shape) {
  fill(generator, out, shape);
}

void normal(Generator& generator, std::span<double> out, NormalShape shape) {
  fill(generator, out, shape);
}

}  // namespace lockstep
