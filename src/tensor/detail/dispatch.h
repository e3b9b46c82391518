// From a dtype known at run time to a C++ type known at compile time.
#pragma once

#include <string>
#include <type_traits>

#include "lockstep/base/check.h"
#include "lockstep/base/half.h"
#include "lockstep/tensor/dtype.h"

namespace lockstep {
namespace detail {

/// Element types that C++ has no arithmetic for. `Value` is what one element is computed in.
struct Half {
  using Value = float;
  std::uint16_t bits;

  static constexpr Half from(float value) { return {to_f16(value)}; }

  constexpr float value() const { return from_f16(bits); }
};

struct BFloat {
  using Value = float;
  std::uint16_t bits;

  static constexpr BFloat from(float value) { return {to_bf16(value)}; }

  constexpr float value() const { return from_bf16(bits); }
};

struct Boolean {
  using Value = std::uint8_t;
  std::uint8_t bits;

  static constexpr Boolean from(std::uint8_t value) {
    return {static_cast<std::uint8_t>(value != 0 ? 1 : 0)};
  }

  constexpr std::uint8_t value() const { return bits; }
};

}  // namespace detail

template <>
struct DTypeOf<detail::Half> {
  static constexpr DType kValue = DType::kF16;
};

template <>
struct DTypeOf<detail::BFloat> {
  static constexpr DType kValue = DType::kBF16;
};

namespace detail {

template <typename T>
constexpr bool kWrapped = !std::is_arithmetic_v<T>;

/// An element as something that can be computed with.
template <typename T>
constexpr auto load(T element) {
  if constexpr (kWrapped<T>) {
    return element.value();
  } else {
    return element;
  }
}

/// What one element of T is computed in: f32 for 16-bit floats.
template <typename T>
using Value = decltype(load(T{}));

/// A computed value as an element: 16-bit floats by way of f32, as PyTorch converts.
template <typename T, typename V>
constexpr T store(V value) {
  if constexpr (std::is_same_v<T, Boolean>) {
    return Boolean{static_cast<std::uint8_t>(value != V{0} ? 1 : 0)};
  } else if constexpr (kWrapped<T>) {
    return T::from(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

/// Calls f(T{}) for float or double. Errors: ContractViolation for any other dtype.
template <typename F>
void for_float(DType dtype, F f) {
  if (dtype == DType::kF32) return f(float{});
  LOCKSTEP_CHECK(dtype == DType::kF64,
                 "this operation computes in f32 or f64, not in " + std::string(name_of(dtype)));
  return f(double{});
}

/// Calls f(T{}) for float, double or a 16-bit float. Errors: ContractViolation for other dtypes.
template <typename F>
void for_real(DType dtype, F f) {
  if (dtype == DType::kF16) return f(Half{});
  if (dtype == DType::kBF16) return f(BFloat{});
  for_float(dtype, f);
}

/// Calls f(T{}) with the element type of `dtype`.
template <typename F>
auto for_any(DType dtype, F f) {
  switch (dtype) {
    case DType::kF32:
      return f(float{});
    case DType::kF64:
      return f(double{});
    case DType::kF16:
      return f(Half{});
    case DType::kBF16:
      return f(BFloat{});
    case DType::kI8:
      return f(std::int8_t{});
    case DType::kU8:
      return f(std::uint8_t{});
    case DType::kI32:
      return f(std::int32_t{});
    case DType::kI64:
      return f(std::int64_t{});
    case DType::kBool:
      return f(Boolean{});
  }
  fail_check("a known dtype", __FILE__, __LINE__, "unknown dtype");
}

}  // namespace detail
}  // namespace lockstep
