#include "lockstep/sim/net/traffic.h"

#include <algorithm>

namespace lockstep::sim {

void Traffic::add(std::int32_t rank, VirtualTime begin, VirtualTime end) {
  if (end <= begin) return;
  std::vector<Interval>& intervals = ranks_[static_cast<std::size_t>(rank)];
  const Interval added{begin.ns, end.ns};
  if (!intervals.empty() && intervals.back().begin <= added.begin &&
      added.begin <= intervals.back().end) {
    intervals.back().end = std::max(intervals.back().end, added.end);
    return;
  }
  intervals.insert(std::ranges::upper_bound(intervals, added.begin, {}, &Interval::begin), added);
}

Duration Traffic::under_way(std::int32_t rank, VirtualTime begin, VirtualTime end) {
  std::vector<Interval>& intervals = ranks_[static_cast<std::size_t>(rank)];
  std::erase_if(intervals, [&](const Interval& each) { return each.end <= begin.ns; });
  std::int64_t total = 0;
  std::int64_t reached = begin.ns;
  for (const Interval& each : intervals) {
    const std::int64_t from = std::max(each.begin, reached);
    const std::int64_t to = std::min(each.end, end.ns);
    if (to <= from) continue;
    total += to - from;
    reached = to;
  }
  return {total};
}

}  // namespace lockstep::sim
