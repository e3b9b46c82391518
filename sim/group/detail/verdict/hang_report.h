// When no rank can run: calls to lost peers fail, and a deadlock is explained.
#pragma once

#include <string>
#include <vector>

#include "lockstep/laws/wait_for.h"
#include "lockstep/sim/group/detail/matching.h"

namespace lockstep::sim {

class HangReport {
 public:
  explicit HangReport(GroupRegistry& registry) : registry_(&registry) {}

  /// Members of a dead rank learn of it here, exactly when nothing else can happen any more; where
  /// there is none, pending calls end as stuck, with an explanation.
  void on_stuck(const StuckVerdict& verdict);

  /// See SimGroups::explain, wait_for and missing_ranks.
  const std::string& explanation() const { return explanation_; }

  const WaitForGraph& wait_for() const { return wait_for_; }

  const std::vector<Rank>& missing() const { return missing_; }

 private:
  std::vector<SimWork*> one_per_slot(const StuckVerdict& verdict) const;
  bool fail_calls_to_lost_peers(const StuckVerdict& verdict);
  void end_stuck(const StuckVerdict& verdict);
  void end_stuck(SimWork& work);
  std::string cycle_text(const StuckVerdict& verdict) const;
  std::string losses_text() const;
  std::string mispaired_text() const;

  GroupRegistry* registry_;
  std::string explanation_;
  WaitForGraph wait_for_;
  std::vector<Rank> missing_;
};

/// The wait-for graph of a world in which no rank can run (wait_for_drawing.cc).
WaitForGraph draw_wait_for(GroupRegistry& registry, const StuckVerdict& verdict);

}  // namespace lockstep::sim
