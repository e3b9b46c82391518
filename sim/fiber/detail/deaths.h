// What ends ranks against their will: one by name, or all when the world is taken down.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lockstep/sim/fiber/world.h"

namespace lockstep::sim {

class Deaths {
 public:
  /// All that are left end now. Only the first teardown counts.
  void tear_down(RankOutcome outcome, const std::string& reason, EndReason why) {
    tearing_down_ = true;
    outcome_ = outcome;
    reason_ = reason;
    why_ = why;
  }

  bool is_tearing_down() const { return tearing_down_; }

  /// How a rank ends that gets RankKilled now.
  RankOutcome outcome_of(Rank rank) const {
    return killed_.contains(rank) ? RankOutcome::kKilled : outcome_;
  }

  void kill(Rank rank, const std::string& reason) { killed_[rank] = reason; }

  const std::string& reason_of(Rank rank) const {
    const auto killed = killed_.find(rank);
    return killed != killed_.end() ? killed->second : reason_;
  }

  /// A rank that was killed by name did not end because of the teardown.
  EndReason why_of(Rank rank) const { return killed_.contains(rank) ? EndReason::kNone : why_; }

 private:
  std::map<Rank, std::string> killed_;  // Why.
  bool tearing_down_ = false;
  RankOutcome outcome_ = RankOutcome::kKilled;
  std::string reason_;
  EndReason why_ = EndReason::kNone;
};

/// What is to run on ranks' stacks at their next points.
using Interrupts = std::map<Rank, std::vector<std::function<void(RankHandle&)>>>;

}  // namespace lockstep::sim
