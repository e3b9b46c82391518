// Element types of tensors, in memory and on the wire.
#pragma once

#include <cstdint>

#include "lockstep/base/enum_names.h"

namespace lockstep {

enum class DType : std::uint8_t {
  kF32,
  kF64,
  kF16,   ///< IEEE binary16, storage only.
  kBF16,  ///< bfloat16, storage only.
  kI8,
  kU8,
  kI32,
  kI64,
  kBool,  ///< One byte, 0 or 1.
};
template <>
inline constexpr EnumNames<9> kEnumNames<DType> = {
    "f32", "f64", "f16", "bf16", "i8", "u8", "i32", "i64", "bool"};

constexpr std::int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
    case DType::kI64:
      return 8;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kF16:
    case DType::kBF16:
      return 2;
    case DType::kI8:
    case DType::kU8:
    case DType::kBool:
      return 1;
  }
  return 0;
}

constexpr bool is_floating(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kF16 ||
         dtype == DType::kBF16;
}

/// f16 or bf16.
constexpr bool is_narrow(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16; }

template <typename T>
struct DTypeOf;

template <>
struct DTypeOf<float> {
  static constexpr DType kValue = DType::kF32;
};

template <>
struct DTypeOf<double> {
  static constexpr DType kValue = DType::kF64;
};

template <>
struct DTypeOf<std::int8_t> {
  static constexpr DType kValue = DType::kI8;
};

template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType kValue = DType::kU8;
};

template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType kValue = DType::kI32;
};

template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType kValue = DType::kI64;
};

/// Where a tensor's bytes live.
enum class Device : std::uint8_t { kCpu, kCuda };
template <>
inline constexpr EnumNames<2> kEnumNames<Device> = {"cpu", "cuda"};

}  // namespace lockstep
