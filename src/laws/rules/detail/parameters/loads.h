// What ranks loaded into their models, as far as it shows.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// Loads that a program records by its states, and files that it has read since it made a wrapper.
class Loads {
 public:
  void on_event(const Event& event, RankRange who) {
    if (const auto* state = std::get_if<StateEvent>(&event.body)) {
      if (state->point == StatePoint::kLoad) into_.insert(wrapper_of(event.at));
    } else if (const auto* snapshot = std::get_if<SnapshotEvent>(&event.body)) {
      if (snapshot->action != SnapshotAction::kRead) return;
      for (std::int32_t i = 0; i < who.n; ++i) readers_[event.at.attempt].insert(who.first + i);
    } else if (std::holds_alternative<WrapEvent>(event.body) && !readers_.empty()) {
      for (std::int32_t i = 0; i < who.n; ++i) readers_[event.at.attempt].erase(who.first + i);
    }
  }

  bool into(WrapperKey wrapper) const { return into_.contains(wrapper); }

  /// Ranks that have read a file since their last wrapper was made; empty unless others of
  /// `n_ranks` have not.
  std::vector<Rank> lone_readers(std::int32_t attempt, std::int32_t n_ranks) const {
    std::vector<Rank> ranks;
    const auto known = readers_.find(attempt);
    if (known == readers_.end() || std::ssize(known->second) >= n_ranks) return ranks;
    for (const std::int32_t rank : known->second) ranks.push_back(Rank{rank});
    return ranks;
  }

 private:
  std::set<WrapperKey> into_;
  std::map<std::int32_t, std::set<std::int32_t>> readers_;  // By attempt.
};

}  // namespace lockstep::laws
