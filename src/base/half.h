// The two 16-bit float formats: bits to and from f32, rounding to nearest even.
#pragma once

#include <bit>
#include <cstdint>

namespace lockstep {

/// Exact. NaN payloads keep their upper bits.
constexpr float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

/// Every NaN becomes 0x7fc0, as in PyTorch's scalar conversion; its vector copies write 0xffff.
constexpr std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U;
  return static_cast<std::uint16_t>(value != value ? 0x7FC0U : rounded);
}

/// Exact. Branch free: both subnormal and normal results are computed and one is selected.
constexpr float from_f16(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16U;
  const std::uint32_t magnitude = bits & 0x7FFFU;
  // Multiplying by 2^112 moves the exponent bias from 15 to 127 and normalises subnormals.
  const float scaled = std::bit_cast<float>(magnitude << 13U) * 0x1p112F;
  const std::uint32_t special = (magnitude << 13U) | 0x7F800000U;
  const std::uint32_t word = magnitude >= 0x7C00U ? special : std::bit_cast<std::uint32_t>(scaled);
  return std::bit_cast<float>(word | sign);
}

/// Overflow gives infinity; every NaN becomes 0x7e00 with its sign, as in PyTorch.
constexpr std::uint16_t to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16U) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  // Subnormal results: adding 0.5 lets the FPU align and round the mantissa at 2^-24.
  const float aligned = std::bit_cast<float>(magnitude) + 0.5F;
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(aligned) - 0x3F000000U;
  const std::uint32_t normal =
      (magnitude - 0x38000000U + 0xFFFU + ((magnitude >> 13U) & 1U)) >> 13U;
  std::uint32_t result = magnitude < 0x38800000U ? subnormal : normal;
  if (magnitude >= 0x47800000U) result = 0x7C00U;
  if (magnitude > 0x7F800000U) result = 0x7E00U;
  return static_cast<std::uint16_t>(result | sign);
}

}  // namespace lockstep
