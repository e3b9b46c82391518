// How much of a time something was under way.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace lockstep::detail {

struct Interval {
  std::int64_t start = 0;
  std::int64_t end = 0;
};

/// The length of the union of the intervals, as far as they lie in [start, end).
inline std::int64_t covered(std::vector<Interval> intervals, std::int64_t start, std::int64_t end) {
  std::ranges::sort(intervals, {}, &Interval::start);
  std::int64_t total = 0;
  std::int64_t reached = start;
  for (const Interval& each : intervals) {
    const std::int64_t from = std::max(each.start, reached);
    const std::int64_t to = std::min(each.end, end);
    if (to <= from) continue;
    total += to - from;
    reached = to;
  }
  return total;
}

}  // namespace lockstep::detail
