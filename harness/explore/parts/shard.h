// A command's work split over processes that never meet.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/base/error.h"

namespace lockstep::explore {

/// One of `count` processes. Item i belongs to the shard whose number is i mod `count` + 1, so that
/// which process does what depends on nothing but two numbers.
struct Shard {
  std::uint64_t number = 1;  ///< 1 .. count
  std::uint64_t count = 1;

  bool has(std::uint64_t item) const { return item % count == number - 1; }

  /// The first item at or after `item` that is this shard's.
  std::uint64_t next(std::uint64_t item) const {
    return item + (number - 1 + count - item % count) % count;
  }

  friend bool operator==(const Shard&, const Shard&) = default;
};

/// Reads "2/8".
/// Errors: anything else, a number that is not from 1 to the count, a count above 1,000,000.
Result<Shard> parse_shard(std::string_view text);

/// "2/8"
std::string text_of(const Shard& shard);

}  // namespace lockstep::explore
