// The calls of a rank that are under way, as entries of its timeline.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "lockstep/trace/event.h"
#include "lockstep/trace/timeline.h"

namespace lockstep::detail {

/// From the post of a call to its end. Messages are numbered by pair and tag, other calls by group.
class OpenCalls {
 public:
  void post(const CollectiveEvent& call, std::int32_t rank, std::int64_t now);
  /// The call that ends with this event; nothing if its post was not seen.
  std::optional<TimelineEntry> end(const CollectiveEvent& call, std::int64_t now);
  /// Those that never end, in the order of groups and numbers, drawn up to `now`.
  std::vector<TimelineEntry> abandon(std::int64_t now);

 private:
  using Key = std::tuple<std::int32_t, std::int64_t, std::int32_t, std::int32_t, std::int32_t>;
  static Key key_of(const CollectiveEvent& call);

  std::map<Key, TimelineEntry> calls_;
};

}  // namespace lockstep::detail
