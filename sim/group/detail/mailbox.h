// send and recv: pairs of one (sender, receiver, tag), in order.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/sim/group/detail/matching.h"

namespace lockstep::sim {

class Mailbox {
 public:
  explicit Mailbox(GroupRegistry& registry) : registry_(&registry) {}

  /// The number of a message in its channel.
  static std::int64_t next_number(GroupState& group, const Signature& signature, std::int32_t self);
  void arrive(GroupState& group, SimWork& work);
  /// It is due: offers the delivery to the strategy.
  void make_ready(SimWork& send);
  static void deliver(SimWork& send);
  /// Requires: still in its channel, or its message still under way.
  void fail(SimWork& work, CommStatus status, const std::string* detail);
  /// The memory of this work is about to go.
  void give_up(SimWork& work);

 private:
  void pair(SimWork& send, SimWork& recv);

  GroupRegistry* registry_;
};

}  // namespace lockstep::sim
