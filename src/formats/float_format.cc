#include "lockstep/formats/float_format.h"

#include <algorithm>
#include <array>
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

struct Row {
  ElementType type;
  DType dtype;
  double unit;
  double smallest;
  double largest;
};

constexpr std::array kRows = {
    Row{ElementType::kF64, DType::kF64, 0x1p-53, 0x1p-1074, 0x1.FFFFFFFFFFFFFp1023},
    Row{ElementType::kF32, DType::kF32, 0x1p-24, 0x1p-149, 0x1.FFFFFEp127},
    Row{ElementType::kF16, DType::kF16, 0x1p-11, 0x1p-24, 65504.0},
    Row{ElementType::kBF16, DType::kBF16, 0x1p-8, 0x1p-133, 0x1.FEp127}};

const Row& row_of(ElementType type) { return *std::ranges::find(kRows, type, &Row::type); }

}  // namespace

std::optional<FloatFormat> FloatFormat::of(ElementType type) {
  const auto* const row = std::ranges::find(kRows, type, &Row::type);
  return row == kRows.end() ? std::nullopt : std::optional(FloatFormat(row->type));
}

std::optional<FloatFormat> FloatFormat::of(DType dtype) {
  const auto* const row = std::ranges::find(kRows, dtype, &Row::dtype);
  return row == kRows.end() ? std::nullopt : std::optional(FloatFormat(row->type));
}

double FloatFormat::unit_roundoff() const { return row_of(type_).unit; }

double FloatFormat::smallest() const { return row_of(type_).smallest; }

double FloatFormat::largest() const { return row_of(type_).largest; }

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
