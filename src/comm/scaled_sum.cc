#include "lockstep/comm/detail/scaled_sum.h"

#include <bit>
#include <cmath>
#include <limits>

#include "lockstep/base/check.h"
#include "lockstep/base/half.h"

namespace lockstep::detail {

namespace {

// Rounding to odd keeps, in the last bit, that something was cut off; rounding the result again to
// a type two bits narrower then equals rounding once. Source: Boldo and Melquiond, "Emulation of a
// FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008.
double sum_to_odd(double a, double b) {
  const double sum = a + b;
  if (!std::isfinite(sum)) return sum;
  const double back = sum - a;
  const double error = (a - (sum - back)) + (b - back);
  if (error == 0.0 || sum == 0.0) return sum;
  const auto bits = std::bit_cast<std::uint64_t>(sum);
  if ((bits & 1U) == 1U) return sum;
  const bool grows = (error > 0.0) == (sum > 0.0);
  return std::bit_cast<double>(grows ? bits + 1 : bits - 1);
}

float narrow_to_odd(double value) {
  const auto near = static_cast<float>(value);
  if (!std::isfinite(near) || static_cast<double>(near) == value) return near;
  if (near == 0.0F) {
    return static_cast<float>(std::copysign(std::numeric_limits<float>::denorm_min(), value));
  }
  const auto bits = std::bit_cast<std::uint32_t>(near);
  if ((bits & 1U) == 1U) return near;
  const bool grows = (value > static_cast<double>(near)) == (near > 0.0F);
  return std::bit_cast<float>(grows ? bits + 1 : bits - 1);
}

// Exact until the last step: 16-bit floats have at most 11 significant bits, products 22.
float fused_to_odd(float x, float factor, float sum) {
  return narrow_to_odd(
      sum_to_odd(static_cast<double>(x) * static_cast<double>(factor), static_cast<double>(sum)));
}

struct F16 {
  static float load(std::uint16_t bits) { return from_f16(bits); }

  static std::uint16_t store(float value) { return to_f16(value); }
};

struct BF16 {
  static float load(std::uint16_t bits) { return from_bf16(bits); }

  static std::uint16_t store(float value) { return to_bf16(value); }
};

template <typename T>
void scale_wide(void* out, const void* in, double factor, std::int64_t count) {
  auto* o = static_cast<T*>(out);
  const auto* x = static_cast<const T*>(in);
  for (std::int64_t i = 0; i < count; ++i) o[i] = x[i] * static_cast<T>(factor);
}

template <typename T>
void scale_narrow(void* out, const void* in, double factor, std::int64_t count) {
  auto* o = static_cast<std::uint16_t*>(out);
  const auto* x = static_cast<const std::uint16_t*>(in);
  for (std::int64_t i = 0; i < count; ++i) {
    o[i] = T::store(narrow_to_odd(static_cast<double>(T::load(x[i])) * factor));
  }
}

template <typename T>
void add_wide(void* out, const void* in, double factor, const void* sum, std::int64_t count) {
  auto* o = static_cast<T*>(out);
  const auto* x = static_cast<const T*>(in);
  const auto* s = static_cast<const T*>(sum);
  for (std::int64_t i = 0; i < count; ++i) o[i] = std::fma(x[i], static_cast<T>(factor), s[i]);
}

template <typename T>
void add_narrow(void* out, const void* in, double factor, const void* sum, std::int64_t count) {
  auto* o = static_cast<std::uint16_t*>(out);
  const auto* x = static_cast<const std::uint16_t*>(in);
  const auto* s = static_cast<const std::uint16_t*>(sum);
  for (std::int64_t i = 0; i < count; ++i) {
    o[i] = T::store(fused_to_odd(T::load(x[i]), static_cast<float>(factor), T::load(s[i])));
  }
}

[[noreturn]] void refuse() {
  fail_check("a floating-point dtype", __FILE__, __LINE__, "only floats are scaled");
}

}  // namespace

double rounded_factor(double factor, DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return factor;
    case DType::kF32:
      return static_cast<double>(static_cast<float>(factor));
    case DType::kF16:
      return static_cast<double>(from_f16(to_f16(static_cast<float>(factor))));
    case DType::kBF16:
      return static_cast<double>(from_bf16(to_bf16(static_cast<float>(factor))));
    default:
      refuse();
  }
}

void scale(void* out, const void* in, double factor, std::int64_t count, DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return scale_wide<double>(out, in, factor, count);
    case DType::kF32:
      return scale_wide<float>(out, in, factor, count);
    case DType::kF16:
      return scale_narrow<F16>(out, in, factor, count);
    case DType::kBF16:
      return scale_narrow<BF16>(out, in, factor, count);
    default:
      refuse();
  }
}

// The operands of one fused step.  NOLINTNEXTLINE(readability-function-size)
void scale_and_add(
    void* out, const void* in, double factor, const void* sum, std::int64_t count, DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return add_wide<double>(out, in, factor, sum, count);
    case DType::kF32:
      return add_wide<float>(out, in, factor, sum, count);
    case DType::kF16:
      return add_narrow<F16>(out, in, factor, sum, count);
    case DType::kBF16:
      return add_narrow<BF16>(out, in, factor, sum, count);
    default:
      refuse();
  }
}

}  // namespace lockstep::detail
