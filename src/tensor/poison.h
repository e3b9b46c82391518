// What memory holds while a transfer owns it: not-a-numbers that say whose they are.
//
// Arithmetic keeps the payload of a NaN, so a value that was computed from memory which a transfer had
// not filled yet still names that transfer wherever it turns up: in a gradient, in a loss, in what the
// rank contributes next (IEEE 754-2019, 6.2.3; x86 takes the payload of the first NaN operand).
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>

#include "lockstep/tensor/dtype.h"

namespace lockstep {

/// Payloads 0x45'0000 to 0x45'FFFF of an f32: the mark, and the number of the transfer.
constexpr std::uint32_t kPoisonF32 = 0x7FC50000U;
constexpr std::uint16_t kPoisonBf16 = 0x7FC5U;  ///< The mark alone, as in an f32's upper half.
constexpr std::uint16_t kPoisonF16 = 0x7E28U;   ///< The same as an f16: it widens to kPoisonF32.

/// The f32 that poisons memory of transfer `number`, of which the lower 16 bits count.
constexpr float poison_of(std::uint64_t number) {
  return std::bit_cast<float>(kPoisonF32 | static_cast<std::uint32_t>(number & 0xFFFFU));
}

/// Only floating-point elements can carry a mark; others keep their value.
constexpr bool can_be_poisoned(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kF16 ||
         dtype == DType::kBF16;
}

/// The number of the transfer whose memory `value` was computed from; nothing: of none.
///
/// `value` may have been widened or computed with. Of values that passed through 16 bits the number
/// is lost: 0.
constexpr std::optional<std::uint16_t> poisoned_by(double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value) & 0x7FFFFFFFFFFFFFFFU;
  constexpr unsigned kWidened = 29;  // An f32's payload stands that much higher in an f64.
  constexpr std::uint64_t kMark = 0x7FF8000000000000U | (std::uint64_t{0x05} << (16U + kWidened));
  constexpr std::uint64_t kMask = ~((std::uint64_t{1} << (16U + kWidened)) - 1);
  if ((bits & kMask) != kMark) return std::nullopt;
  return static_cast<std::uint16_t>(bits >> kWidened);
}

/// Fills `n_elems` elements with the poison of transfer `number`. Requires: can_be_poisoned(dtype).
void fill_with_poison(void* data, std::int64_t n_elems, DType dtype, std::uint64_t number);

/// Whether `n_elems` elements still hold exactly that.
bool holds_poison(const void* data, std::int64_t n_elems, DType dtype, std::uint64_t number);

/// The first poisoned element's transfer; nothing: no element is poisoned.
std::optional<std::uint16_t> find_poison(const void* data, std::int64_t n_elems, DType dtype);

}  // namespace lockstep
