// The time that operations take, and their messages.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "lockstep/sim/group/detail/matching.h"
#include "lockstep/sim/group/sim_group.h"
#include "lockstep/sim/net/network.h"

namespace lockstep::sim {

/// Between the groups of a world and its network.
///
/// Rendezvous: an operation's transfer waits for the time that its algorithm takes alone; those of
/// a group follow one another. Messages: a member's part starts when it posts, and whatever the
/// group's other operations send meanwhile competes for the same ports.
class MessageNetwork {
 public:
  MessageNetwork(GroupRegistry& registry, World& world, const GroupOptions& options);

  /// Lets the part of `work` begin, if its operation travels as messages.
  /// Requires: it has just been matched.
  void post(MatchSlot& slot, SimWork& work);
  /// Puts a full slot's transfer off to the time it ends. False: it ends now.
  bool defer(MatchSlot& slot);
  /// Puts a paired send's delivery off. False: it arrives now.
  bool defer(SimWork& send, const SimWork& recv);
  /// Its rank is about to go: what is put off must be done at once. False: it was not put off.
  bool cancel_deferral(SimWork& send);

  /// What is under way arrives at once.
  void deliver_now(MatchSlot& slot);
  void drop(MatchSlot& slot);

 private:
  bool uses_messages(const MatchSlot& slot, const SimWork& work) const;
  void arm();
  void run();

  GroupRegistry* registry_;
  World* world_;
  const GroupOptions* options_;
  Network network_;
  std::optional<VirtualTime> armed_;
  std::uint64_t n_deferred_ = 0;
  std::map<std::uint64_t, SimWork*> sends_;  // Put off, by number.
};

}  // namespace lockstep::sim
