// How many blocks cover a length, and the length that they cover.
#pragma once

#include <cstdint>

namespace lockstep::detail {

/// Requires: a >= 0, b > 0.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// The smallest multiple of b that is not below a. Requires: a >= 0, b > 0.
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

}  // namespace lockstep::detail
