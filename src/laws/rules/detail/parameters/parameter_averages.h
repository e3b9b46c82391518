// When ranks that train alone are brought together again: which differences between them are meant.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// What lone events show of one step: which parameters the ranks had apart after it, and which of
/// those they had equal again when they went on.
class FoundTogether {
 public:
  /// Of all ranks.
  struct Seen {
    WrapperKey wrapper;
    std::int32_t n_steps = 0;  ///< Finished before.
    std::vector<NameId> together;
    bool any_was_apart = false;
  };

  /// The average of this place has an event of its own.
  void on_outer(const Event& event) {
    open_[{wrapper_of(event.at), event.at.opt}].recorded = true;
    if (open_.size() > kMostOpen) open_.erase(open_.begin());
  }

  /// Requires: n_members ranks hold a replica.
  std::optional<Seen> on_lone(const Event& event,
                              const LoneEvent& lone,
                              std::int32_t n_members,
                              const NameTable& names) {
    const WrapperKey wrapper = wrapper_of(event.at);
    const std::pair place{wrapper, event.at.opt};
    Step& step = open_[place];
    Side& side = lone.point == LonePoint::kStepped ? step.stepped : step.found;
    side.add(lone, to_int(event.rank));
    if (std::ssize(step.found.ranks) < n_members || std::ssize(step.stepped.ranks) < n_members) {
      if (open_.size() > kMostOpen) open_.erase(open_.begin());
      return std::nullopt;
    }
    if (step.recorded) {
      open_.erase(place);
      return std::nullopt;
    }
    Seen seen{wrapper, event.at.opt, {}, false};
    const std::span<const NameId> tensors = names.layout(lone.layout);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (i >= step.found.differs.size() || step.found.differs[i]) continue;
      seen.together.push_back(tensors[i]);
      seen.any_was_apart = seen.any_was_apart || step.stepped.differs[i];
    }
    open_.erase(place);
    return seen;
  }

 private:
  static constexpr std::size_t kMostOpen = 4096;

  struct Side {
    std::set<std::int32_t> ranks;
    std::vector<std::uint64_t> first;
    std::vector<bool> differs;

    void add(const LoneEvent& lone, std::int32_t rank) {
      // A second optimizer of the wrapper has stepped, too: ranks are counted once.
      if (!ranks.insert(rank).second) return;
      if (ranks.size() == 1) {
        first.assign(lone.digests.begin(), lone.digests.end());
        differs.assign(first.size(), false);
        return;
      }
      for (std::size_t i = 0; i < first.size() && i < lone.digests.size(); ++i) {
        if (lone.digests[i] != first[i]) differs[i] = true;
      }
    }
  };

  struct Step {
    Side stepped;
    Side found;
    bool recorded = false;
  };

  std::map<std::pair<WrapperKey, std::int32_t>, Step> open_;
};

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
    std::vector<NameId> tensors;  ///< The parameters that were averaged.
  };

  /// Requires: n_members ranks hold a replica; `who` is one rank, or shares(wrapper, who).
  std::optional<Ended> on_outer(const Event& event,
                                const OuterStepEvent& outer,
                                RankRange who,
                                std::int32_t n_members,
                                const NameTable& names) {
    if (outer.n_ranks < n_members) return std::nullopt;
    const WrapperKey wrapper = wrapper_of(event.at);
    found_.on_outer(event);
    const std::int32_t interval = intervals_.at(wrapper, who)++;
    Team& team = teams_[wrapper];
    const auto place = static_cast<std::size_t>(interval - team.n_outer);
    if (place >= team.open.size()) team.open.resize(place + 1);
    Average& average = team.open[place];
    average.n_arrived += who.n;
    average.n_steps = std::max(average.n_steps, event.at.opt);
    const std::span<const NameId> layout = names.layout(outer.layout);
    average.tensors.assign(layout.begin(), layout.end());
    if (place > 0 || average.n_arrived < n_members) return std::nullopt;
    if (team.n_complete > 0) {
      team.longest = std::max(team.longest, average.n_steps - team.last.n_steps);
    }
    team.last = std::move(average);
    team.open.pop_front();
    ++team.n_outer;
    return Ended{wrapper, team.n_complete++, team.last.tensors};
  }

  /// An average that the program has made by itself, as its parameters show. One with events of its
  /// own has been counted.
  std::optional<Ended> on_lone(const Event& event,
                               const LoneEvent& lone,
                               std::int32_t n_members,
                               const NameTable& names) {
    std::optional<FoundTogether::Seen> seen = found_.on_lone(event, lone, n_members, names);
    if (!seen || !seen->any_was_apart) return std::nullopt;
    Team& team = teams_[seen->wrapper];
    if (team.n_complete > 0) {
      team.longest = std::max(team.longest, seen->n_steps - team.last.n_steps);
    }
    team.last = {n_members, seen->n_steps, seen->together};
    // All ranks went on from it: none is in the interval before.
    return Ended{seen->wrapper, team.n_complete++, std::move(seen->together)};
  }

  void on_step(const Event& event) {
    const auto team = teams_.find(wrapper_of(event.at));
    if (team == teams_.end()) return;
    team->second.n_steps = std::max(team->second.n_steps, event.at.opt + 1);
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
  bool may_end_in(WrapperKey wrapper, std::int32_t interval, NameId tensor) const {
    const auto known = teams_.find(wrapper);
    if (known == teams_.end()) return false;
    const Team& team = known->second;
    if (team.n_complete == 0 || interval < team.n_complete) return false;
    if (!Wrappers::contains(team.last.tensors, tensor)) return false;
    return team.n_complete == 1 || team.n_steps - team.last.n_steps <= team.longest;
  }

 private:
  struct Average {
    std::int32_t n_arrived = 0;
    std::int32_t n_steps = 0;  // Finished before it.
    std::vector<NameId> tensors;
  };

  struct Team {
    std::int32_t n_outer = 0;  // Of the complete ones, by events of their own.
    std::int32_t n_complete = 0;
    std::int32_t longest = 0;  // Steps between two averages.
    std::int32_t n_steps = 0;
    Average last;
    std::deque<Average> open;  // That some ranks have not reached yet.
  };

  std::map<WrapperKey, Team> teams_;
  FoundTogether found_;
  RankWrapperMap<std::int32_t> intervals_;
};

}  // namespace lockstep::laws
