#include "lockstep/formats/float_format.h"

#include <bit>
#include <cstring>

#include "lockstep/base/half.h"

namespace lockstep {

namespace {

template <typename Word>
Word load(std::string_view bytes, std::size_t index) {
  Word word{};
  std::memcpy(&word, bytes.data() + index * sizeof(Word), sizeof(Word));
  return word;
}

/// The place of a number among all of its format: neighbours differ by one, and both zeros are 0.
std::int64_t place_of(std::uint64_t bits, std::int64_t size) {
  const std::uint64_t sign = std::uint64_t{1} << (8U * static_cast<unsigned>(size) - 1U);
  const auto magnitude = static_cast<std::int64_t>(bits & (sign - 1U));
  return (bits & sign) != 0 ? -magnitude : magnitude;
}

}  // namespace

std::optional<FloatFormat> FloatFormat::of(ElementType type) {
  switch (type) {
    case ElementType::kF64:
    case ElementType::kF32:
    case ElementType::kF16:
    case ElementType::kBF16:
      return FloatFormat(type);
    default:
      return std::nullopt;
  }
}

std::optional<FloatFormat> FloatFormat::of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return FloatFormat(ElementType::kF64);
    case DType::kF32:
      return FloatFormat(ElementType::kF32);
    case DType::kF16:
      return FloatFormat(ElementType::kF16);
    case DType::kBF16:
      return FloatFormat(ElementType::kBF16);
    default:
      return std::nullopt;
  }
}

double FloatFormat::unit_roundoff() const {
  switch (type_) {
    case ElementType::kF64:
      return 0x1p-53;
    case ElementType::kF16:
      return 0x1p-11;
    case ElementType::kBF16:
      return 0x1p-8;
    default:
      return 0x1p-24;
  }
}

double FloatFormat::smallest() const {
  switch (type_) {
    case ElementType::kF64:
      return 0x1p-1074;
    case ElementType::kF16:
      return 0x1p-24;
    case ElementType::kBF16:
      return 0x1p-133;
    default:
      return 0x1p-149;
  }
}

std::uint64_t FloatFormat::bits(std::string_view bytes, std::size_t index) const {
  switch (type_) {
    case ElementType::kF64:
      return load<std::uint64_t>(bytes, index);
    case ElementType::kF32:
      return load<std::uint32_t>(bytes, index);
    default:
      return load<std::uint16_t>(bytes, index);
  }
}

double FloatFormat::read(std::string_view bytes, std::size_t index) const {
  switch (type_) {
    case ElementType::kF64:
      return load<double>(bytes, index);
    case ElementType::kF32:
      return load<float>(bytes, index);
    case ElementType::kF16:
      return from_f16(load<std::uint16_t>(bytes, index));
    default:
      return from_bf16(load<std::uint16_t>(bytes, index));
  }
}

std::uint64_t FloatFormat::bits_of(double value) const {
  switch (type_) {
    case ElementType::kF64:
      return std::bit_cast<std::uint64_t>(value);
    case ElementType::kF32:
      return std::bit_cast<std::uint32_t>(static_cast<float>(value));
    case ElementType::kF16:
      return to_f16(static_cast<float>(value));
    default:
      return to_bf16(static_cast<float>(value));
  }
}

double FloatFormat::round(double value) const {
  switch (type_) {
    case ElementType::kF64:
      return value;
    case ElementType::kF32:
      return static_cast<float>(value);
    case ElementType::kF16:
      return from_f16(to_f16(static_cast<float>(value)));
    default:
      return from_bf16(to_bf16(static_cast<float>(value)));
  }
}

// Operands of 16 bits are floats, and the float operation rounds first.
double FloatFormat::add(double a, double b) const {
  if (type_ == ElementType::kF64) return a + b;
  if (type_ == ElementType::kF32) return static_cast<float>(a + b);
  return round(static_cast<float>(a) + static_cast<float>(b));
}

double FloatFormat::multiply(double a, double b) const {
  if (type_ == ElementType::kF64) return a * b;
  if (type_ == ElementType::kF32) return static_cast<float>(a * b);
  return round(static_cast<float>(a) * static_cast<float>(b));
}

double FloatFormat::divide(double a, double b) const {
  if (type_ == ElementType::kF64) return a / b;
  if (type_ == ElementType::kF32) return static_cast<float>(a / b);
  return round(static_cast<float>(a) / static_cast<float>(b));
}

std::uint64_t FloatFormat::ulps_between(double a, double b) const {
  const std::int64_t from = place_of(bits_of(a), size_of(type_));
  const std::int64_t to = place_of(bits_of(b), size_of(type_));
  // Of numbers with opposite signs the distance may not fit a signed word.
  const auto distance = static_cast<std::uint64_t>(to) - static_cast<std::uint64_t>(from);
  return to >= from ? distance : 0 - distance;
}

}  // namespace lockstep
