// Why ranks wait forever, and why some end unlike the others.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/laws/detail/forward_kinds.h"
#include "lockstep/laws/finding.h"
#include "lockstep/laws/rules/detail/ends/attempt_end.h"

namespace lockstep::laws {

/// Words and causes for what AttemptEnd knows.
class WaitExplainer {
 public:
  /// Requires: both outlive it.
  WaitExplainer(const AttemptEnd& end, const ForwardKinds& forwards)
      : end_(&end), forwards_(&forwards) {}

  /// Ranks wait in this call forever. Requires: at least one does.
  Finding waiting_in(const Channel& channel, std::int64_t seq) const;
  /// Why ranks wait in a circle: calls of several groups, or messages that are never received.
  Cause cause_of_cycle() const;
  /// These ranks ended in this way, and others did not.
  Finding bad_end(EndOutcome outcome, const std::vector<Rank>& ranks) const;

 private:
  /// What the first few others are in where all members have posted something.
  std::string other_calls(const Channel& channel, const OpenCall& call) const;
  /// What the first few of them did instead of making a call.
  std::string absences(std::span<const Rank> missing) const;
  std::string absence(Rank rank) const;
  Cause cause(const Finding& finding, const Channel& channel) const;
  /// Why this rank never made a call that others wait in.
  /// Whether one of those that wait was released by a deadline.
  bool gave_up(const Finding& finding, const Channel& channel) const;
  bool all_were_on_their_way(const Finding& finding, const Channel& channel) const;
  Cause cause_of_absence(Rank rank, const Finding& finding, const Channel& channel) const;
  /// Whether rank 0 waits in a forward through the wrapper that evaluates, as this rank never did.
  bool evaluates_alone(Rank rank, const Finding& finding, const Channel& channel) const;
  /// Why this rank exited, and normally, before a call that others wait in.
  Cause cause_of_early_end(Rank rank, const Finding& finding, const Channel& channel) const;
  static bool one_came_late(const std::vector<const OpenCall*>& calls);
  /// Why a call that all members posted does not complete.
  Cause cause_of_lost(const Finding& finding, const Channel& channel) const;

  const AttemptEnd* end_;
  const ForwardKinds* forwards_;
};

}  // namespace lockstep::laws
