// What ranks had equal before the first step.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/rules/detail/parameters/agreement.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// The parameters of replicas as they were wrapped, and as the first synchronising forward began.
class Starts {
 public:
  /// Requires: a state of one of these two points. Of each rank the first one counts.
  void on_state(const Event& event, const StateEvent& state, RankRange who) {
    const AlignmentKey start{wrapper_of(event.at),
                             -1,
                             static_cast<std::int32_t>(state.point),
                             static_cast<std::uint32_t>(state.layout),
                             0};
    for (std::int32_t rank = who.first; rank < who.first + who.n; ++rank) {
      if (seen_.insert({rank, start}).second) starts_[start].add(state.digests, {rank, 1});
    }
  }

  /// Whether ranks differed in the tensor; nothing where it was not seen at that point.
  std::optional<bool> differed(StatePoint point,
                               WrapperKey wrapper,
                               NameId tensor,
                               const NameTable& names) const {
    for (const auto& [start, agreement] : starts_) {
      if (start.wrapper != wrapper || start.what != static_cast<std::int32_t>(point)) continue;
      const std::span<const NameId> layout = names.layout(static_cast<LayoutId>(start.layout));
      const auto at = std::ranges::find(layout, tensor);
      if (at != layout.end())
        return agreement.differs(static_cast<std::size_t>(at - layout.begin()));
    }
    return std::nullopt;
  }

  /// Whether they differed as the first synchronising forward began, or else as they were wrapped.
  bool differed(WrapperKey wrapper, NameId tensor, const NameTable& names) const {
    return differed(StatePoint::kForward, wrapper, tensor, names)
        .value_or(differed(StatePoint::kWrap, wrapper, tensor, names).value_or(false));
  }

  /// Whether ranks differed in anything of the wrapper at that point.
  bool any_differed(StatePoint point, WrapperKey wrapper) const {
    return std::ranges::any_of(starts_, [&](const auto& entry) {
      const auto& [start, agreement] = entry;
      return start.wrapper == wrapper && start.what == static_cast<std::int32_t>(point) &&
             agreement.differs();
    });
  }

 private:
  std::map<AlignmentKey, Agreement> starts_;
  std::set<std::pair<std::int32_t, AlignmentKey>> seen_;  // By rank.
};

}  // namespace lockstep::laws
