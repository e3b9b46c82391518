// Who is out of step where the members of a group call different things, and why.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "lockstep/laws/detail/forward_kinds.h"
#include "lockstep/laws/detail/signature_field.h"
#include "lockstep/laws/finding.h"
#include "lockstep/laws/rules/call_slots.h"

namespace lockstep::laws {

/// Makes a finding of the calls of one group. At the end, since an extra call shows in how often ranks
/// called later.
class CallJudge {
 public:
  /// What is known of a run; it must outlive the judge.
  struct Known {
    const ForwardKinds& forwards;
    const std::set<std::int32_t>& died;  ///< Attempts in which a rank died.
    bool decides = false;                ///< Ranks decide things, which law 20 compares.
  };

  explicit CallJudge(const Known& known) : known_(known) {}

  /// Of all that differs in a group, what comes first and explains the rest; nothing: all is as it
  /// should be.
  /// Requires: all of the group's slots are closed.
  std::optional<Finding> judge(const calls::GroupKey& key, const calls::GroupState& group) const;

 private:
  /// A call of the program's own meets what ranks whose inputs are used up do for a wrapper.
  static std::optional<Finding> beside_join(const calls::GroupKey& key,
                                            const calls::GroupState& group);
  /// A call too many fits the others' signature by chance and shifts all that follow, until one does
  /// not fit: the place of that one says little.
  std::optional<Finding> extra_before_mismatch(const calls::GroupKey& key,
                                               const calls::GroupState& group) const;
  Finding mismatch(const calls::GroupKey& key,
                   const calls::GroupState& group,
                   const calls::Disagreement& found) const;
  /// A call that a rank left out shifts all that follow, as one too many does: a later one does not fit, or the rank has made
  /// fewer in the end.
  static std::optional<Finding> skipped_at(const calls::GroupKey& key,
                                           const calls::GroupState& group,
                                           const calls::Disagreement& found);
  /// Two sites of one collective are a usual idiom. They mean an extra call only if one side made more
  /// calls than the other, its site more often, and the other side's site comes on it too, later.
  std::optional<Finding> shifted_sites(const calls::GroupKey& key,
                                       const calls::GroupState& group) const;
  /// A rank that left a backward out meets the others' reduction with whatever it calls next.
  void blame_dropped_forward(Finding& finding) const;

  Cause cause_of_extra(const calls::Variant& odd, const calls::Variant& other) const;
  Cause cause_of(const calls::GroupState& group,
                 const calls::Slot& slot,
                 const calls::Variant& odd,
                 SignatureField field) const;

  Known known_;
};

}  // namespace lockstep::laws
