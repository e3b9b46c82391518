// The ids, times and generations that cross room borders, as distinct types.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "lockstep/base/enum_names.h"

namespace lockstep {

/// A rank's number in the whole world, 0 .. world size - 1. A rank's place inside a sub-group is a
/// plain integer ("group rank"), as in c10d; the two must not be mixed, hence the type.
enum class Rank : std::int32_t {};

constexpr std::int32_t to_int(Rank rank) { return static_cast<std::int32_t>(rank); }

constexpr std::size_t to_index(Rank rank) { return static_cast<std::size_t>(rank); }

/// Nanoseconds since the start of the run: virtual in the simulator, monotone wall time in real
/// runs.
struct VirtualTime {
  std::int64_t ns = 0;

  friend constexpr auto operator<=>(const VirtualTime&, const VirtualTime&) = default;
};

/// A span of time in nanoseconds.
struct Duration {
  std::int64_t ns = 0;

  friend constexpr auto operator<=>(const Duration&, const Duration&) = default;
};

// Both stop at the ends of the range, 292 years from the start, instead of overflowing.
constexpr VirtualTime operator+(VirtualTime time, Duration span) {
  using Range = std::numeric_limits<std::int64_t>;
  std::int64_t sum = 0;
  if (__builtin_add_overflow(time.ns, span.ns, &sum))
    return {span.ns > 0 ? Range::max() : Range::min()};
  return {sum};
}

constexpr Duration operator-(VirtualTime later, VirtualTime earlier) {
  using Range = std::numeric_limits<std::int64_t>;
  std::int64_t span = 0;
  if (__builtin_sub_overflow(later.ns, earlier.ns, &span)) {
    return {later.ns > earlier.ns ? Range::max() : Range::min()};
  }
  return {span};
}

/// Whose bits and behaviour to reproduce where generations of PyTorch differ.
enum class Compat : std::uint8_t {
  kTorch1,  ///< 1.13.
  kTorch2,  ///< 2.7 and later.
};
template <>
inline constexpr EnumNames<2> kEnumNames<Compat> = {"1.13", "2.7"};

}  // namespace lockstep
