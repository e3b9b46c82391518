// The four formats in which gradients are summed, as doubles: every value of each is one exactly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "lockstep/formats/state_file.h"
#include "lockstep/tensor/dtype.h"

namespace lockstep {

/// An element type that results are explained for.
class FloatFormat {
 public:
  /// Absent: the type is another one than f16, bf16, f32 or f64.
  static std::optional<FloatFormat> of(ElementType type);
  static std::optional<FloatFormat> of(DType dtype);

  ElementType type() const { return type_; }

  /// Half the distance of 1 to the next number: a rounding is off by at most this, relatively.
  double unit_roundoff() const;
  /// The smallest number above 0.
  double smallest() const;
  /// The largest finite number.
  double largest() const;

  /// Element `index` of packed little-endian elements.
  double read(std::string_view bytes, std::size_t index) const;
  /// Its bits, in the lowest ones.
  std::uint64_t bits(std::string_view bytes, std::size_t index) const;
  /// The bits of a number of this format.
  std::uint64_t bits_of(double value) const;

  // Operations on numbers of this format, each rounded once, to nearest, ties to even.
  // For f16 and bf16 they are computed in f32, which has more than twice their digits and two more, so
  // that rounding twice is rounding once (Figueroa, "When is double rounding innocuous?", 1995); for
  // f32 in f64 likewise.
  double add(double a, double b) const;
  double multiply(double a, double b) const;
  double divide(double a, double b) const;
  double round(double value) const;

  /// How many numbers of this format lie between two of them, the second one included; 0: equal
  /// (-0 and 0 are).
  /// Requires: neither is a NaN.
  std::uint64_t ulps_between(double a, double b) const;

 private:
  explicit FloatFormat(ElementType type) : type_(type) {}

  ElementType type_;
};

}  // namespace lockstep
