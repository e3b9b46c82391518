// When ranks that train alone are brought together again: which differences between them are meant.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// Counts the averages over all ranks of a wrapper. They divide its run into intervals: number 0 is
/// before the first average, the last one after the last.
///
/// An average over some of the ranks brings nothing together: other parts of the world stay apart.
class ParameterAverages {
 public:
  /// What an average that all ranks have taken part in ends.
  struct Ended {
    WrapperKey wrapper;
    std::int32_t interval = 0;
    LayoutId layout = kNoLayout;  ///< The parameters that were averaged.
  };

  /// Requires: n_members ranks hold a replica; `who` is one rank, or shares(wrapper, who).
  std::optional<Ended> on_outer(const Event& event,
                                const OuterStepEvent& outer,
                                RankRange who,
                                std::int32_t n_members) {
    if (outer.n_ranks < n_members) return std::nullopt;
    const WrapperKey wrapper = wrapper_of(event.at);
    const std::int32_t interval = intervals_.at(wrapper, who)++;
    Team& team = teams_[wrapper];
    const auto place = static_cast<std::size_t>(interval - team.n_complete);
    if (place >= team.open.size()) team.open.resize(place + 1);
    Average& average = team.open[place];
    average.n_arrived += who.n;
    average.n_steps = std::max(average.n_steps, event.at.opt);
    average.layout = outer.layout;
    if (place > 0 || average.n_arrived < n_members) return std::nullopt;
    if (team.n_complete > 0) {
      team.longest = std::max(team.longest, average.n_steps - team.last.n_steps);
    }
    team.last = average;
    team.open.pop_front();
    return Ended{wrapper, team.n_complete++, average.layout};
  }

  void on_step(const Event& event) {
    const auto team = teams_.find(wrapper_of(event.at));
    if (team == teams_.end()) return;
    team->second.n_steps = std::max(team->second.n_steps, event.at.opt + 1);
  }

  /// The interval that a rank is in. Requires: as on_outer().
  std::int32_t interval_of(WrapperKey wrapper, RankRange who) {
    const std::int32_t* const interval = intervals_.find(wrapper, who);
    return interval == nullptr ? 0 : *interval;
  }

  /// The interval that all ranks have reached.
  std::int32_t common_interval(WrapperKey wrapper) const {
    const auto team = teams_.find(wrapper);
    return team == teams_.end() ? 0 : team->second.n_complete;
  }

  /// Whether events of these ranks may be delivered at once.
  bool shares(WrapperKey wrapper, RankRange who) const { return intervals_.shares(wrapper, who); }

  /// At the end: whether the run just stopped before the next average of `tensor` was due. It was
  /// not if this interval has more steps than any between two averages; after a single average
  /// it is not known when the next one is due.
  bool may_end_in(WrapperKey wrapper,
                  std::int32_t interval,
                  NameId tensor,
                  const NameTable& names) const {
    const auto known = teams_.find(wrapper);
    if (known == teams_.end()) return false;
    const Team& team = known->second;
    if (team.n_complete == 0 || interval < team.n_complete) return false;
    if (!Wrappers::contains(names.layout(team.last.layout), tensor)) return false;
    return team.n_complete == 1 || team.n_steps - team.last.n_steps <= team.longest;
  }

 private:
  struct Average {
    std::int32_t n_arrived = 0;
    std::int32_t n_steps = 0;  // Finished before it.
    LayoutId layout = kNoLayout;
  };

  struct Team {
    std::int32_t n_complete = 0;
    std::int32_t longest = 0;  // Steps between two averages.
    std::int32_t n_steps = 0;
    Average last;
    std::deque<Average> open;  // That some ranks have not reached yet.
  };

  std::map<WrapperKey, Team> teams_;
  RankWrapperMap<std::int32_t> intervals_;
};

}  // namespace lockstep::laws
