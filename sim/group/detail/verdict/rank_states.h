// What each rank is doing, and how verdicts call it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/laws/wait_for.h"
#include "lockstep/sim/group/detail/matching.h"

namespace lockstep::sim {

/// Which call each rank waits in, and who is missing in it.
class RankStates {
 public:
  explicit RankStates(GroupRegistry& registry) : registry_(&registry) {}

  /// Null: it does not wait in a call any more.
  void set_waiting(Rank rank, SimWork* work) {
    if (to_index(rank) >= waiting_.size()) make_room();
    waiting_[to_index(rank)] = work;
  }

  SimWork* waiting_on(Rank rank) const {
    return to_index(rank) < waiting_.size() ? waiting_[to_index(rank)] : nullptr;
  }

  /// Lets the rank of a completed work continue, if it waits for it and is not dying.
  void wake_waiter(const SimWork& work);

  /// Ranks that do not wait run without making progress.
  void set_livelock(bool livelock) { livelock_ = livelock; }

  /// World ranks that have not posted their side of `work`, ascending.
  std::vector<std::int32_t> missing_for(const SimWork& work) const;
  /// These in words: a rank that can still arrive is late; one that waits elsewhere or has ended is
  /// missing. Empty: none.
  std::string missing_text(const SimWork& work) const;
  /// What a rank does instead, as the end of "rank 2, which ...".
  std::string state_of(std::int32_t rank) const;
  WaitForNode::State state_in_graph(Rank rank) const;

 private:
  void make_room();
  bool is_cut_off(const MatchSlot& slot, Rank a, Rank b) const;

  GroupRegistry* registry_;
  std::vector<SimWork*> waiting_;  // By world rank.
  bool livelock_ = false;
};

/// "all_reduce #0 of group 0 (2 x f32) at train.cc:5".
std::string describe_call(const SimWork& work);

}  // namespace lockstep::sim
