// Links that are down for a time, repeatedly, or permanently.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace lockstep::sim {

/// Nothing passes between `ranks` and `peers`, either way, from `from_ns` on. A partition is an
/// outage between its two sides.
struct Outage {
  std::vector<std::int32_t> ranks{};
  std::vector<std::int32_t> peers{};  ///< Empty: all others.
  std::int64_t from_ns = 0;
  std::int64_t for_ns = 0;     ///< How long; 0: permanently.
  std::int64_t period_ns = 0;  ///< Down again this long after it last went down; 0: once.

  bool separates(std::int32_t a, std::int32_t b) const;
  /// Whether some of `members` are on one side and some on the other.
  bool separates(std::span<const std::int32_t> members) const;
  /// When it is not down, at `now_ns` or later; nothing: never again.
  std::optional<std::int64_t> next_up(std::int64_t now_ns) const;
};

/// When a message between `a` and `b` can begin; nothing: never.
std::optional<std::int64_t> next_up(std::span<const Outage> outages,
                                    std::int32_t a,
                                    std::int32_t b,
                                    std::int64_t now_ns);
/// When an operation of all members can begin; nothing: never.
std::optional<std::int64_t> next_up(std::span<const Outage> outages,
                                    std::span<const std::int32_t> members,
                                    std::int64_t now_ns);

}  // namespace lockstep::sim
