// Collectives: members meet at a sequence number; the last to arrive makes the transfer possible.
//
//   arrive ──► slot: compared with the first, so that a mismatch is reported at once
//                │ all have arrived
//                ▼
//              fill ──► make_ready ──► transfer ──► close     an action of the strategy
//                └────► its messages ──► finish_member ...    members complete one by one
#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <string>
#include <vector>

#include "lockstep/sim/group/detail/matching.h"
#include "lockstep/sim/group/detail/memory/transfer.h"
#include "lockstep/sim/group/sim_group.h"

namespace lockstep::sim {

/// The slots of all groups. Reuses those that were closed; their addresses are stable.
class Meetings {
 public:
  /// Null: not opened yet, or closed.
  static MatchSlot* find(const GroupState& group, std::int64_t seq);
  /// Opens it where it is the next one.
  /// Requires: members reach sequence numbers one after another.
  MatchSlot& at(Matcher& matcher, GroupState& group, std::int64_t seq);
  void close(MatchSlot& slot);

 private:
  MatchSlot& open(GroupState& group, std::int64_t seq);

  std::deque<MatchSlot> slots_;
  std::vector<MatchSlot*> free_;
};

class Matcher {
 public:
  explicit Matcher(GroupRegistry& registry);

  /// Where the members of the group meet at this sequence number.
  MatchSlot& slot_at(GroupState& group, std::int64_t seq) {
    return meetings_.at(*this, group, seq);
  }

  void arrive(MatchSlot& slot, SimWork& work);
  /// Its contribution was delayed on its way.
  void arrive_late(SimWork& work);
  /// It is due: offers the transfer to the strategy.
  void make_ready(MatchSlot& slot);
  void transfer(MatchSlot& slot);
  void on_member_done(MatchSlot& slot, std::int32_t member);
  /// A message's addition rounded in exact mode.
  void on_inexact(MatchSlot& slot, std::exception_ptr problem);
  /// The same while a member arrives; the last one closes the slot.
  void fail_inexact(MatchSlot& slot, std::exception_ptr problem);
  void fail(MatchSlot& slot, CommStatus status, const std::string* detail);
  /// The same; a transfer under way ends.
  void time_out(MatchSlot& slot, const std::string* detail);
  /// The memory of this work is about to go.
  void give_up(SimWork& work);

 private:
  void admit(MatchSlot& slot, SimWork& work);
  void compare(MatchSlot& slot, SimWork& work);
  void fill(MatchSlot& slot);
  bool hangs_when_paired(MatchSlot& slot) const;
  bool move_data(MatchSlot& slot);
  void finish_member(MatchSlot& slot, std::int32_t member);
  bool finish_now(MatchSlot& slot);

  GroupRegistry* registry_;
  const GroupOptions* options_;
  Meetings meetings_;
  Transfer transfer_;
};

/// Where `work` meets the others. Null: it completed, or it is a message.
MatchSlot* slot_of(const SimWork& work);

}  // namespace lockstep::sim
