// Where the members of a group meet.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lockstep/sim/fiber/world.h"
#include "lockstep/sim/group/detail/sim_work.h"

namespace lockstep::sim {

class Hub;
struct GroupState;

/// The meeting of all members at one sequence number; reused for later numbers.
struct MatchSlot final : ActionHandler {
  void on_action(const Action& action) override;

  Hub* hub = nullptr;
  GroupState* group = nullptr;
  std::int64_t seq = 0;
  std::vector<SimWork*> works;  ///< By group rank; null: not posted, or given up by an ended rank.
  SimWork* first = nullptr;     ///< The first to arrive: later ones are compared with it.
  std::int32_t n_arrived = 0;
  std::int32_t n_lost = 0;  ///< Arrived, then their rank ended before the transfer.
  bool ready = false;       ///< Its transfer is enabled.
  bool hung = false;        ///< All arrived with operations that never complete together.
  bool failed = false;
  CommStatus status = CommStatus::kOk;
  const std::string* detail = nullptr;
};

/// Messages of one (sender, receiver, tag), in order.
struct Channel {
  struct Queue {
    SimWork* head = nullptr;
    SimWork* tail = nullptr;
    std::int64_t n_posted = 0;
  };

  Queue sends;
  Queue recvs;
};

using ChannelKey = std::tuple<std::int32_t, std::int32_t, std::int32_t>;  // receiver, tag, sender
using AnyKey = std::pair<std::int32_t, std::int32_t>;                     // receiver, tag

/// What all members of one group share.
struct GroupState {
  std::int32_t id = 0;
  std::vector<std::int32_t> members;      ///< World ranks by group rank.
  std::vector<SimProcessGroup*> handles;  ///< By group rank; null: not made yet, or gone.
  std::vector<MatchSlot*> window;         ///< Ring by sequence number, a power of two.
  std::int64_t first_open = 0;            ///< All numbers below are closed.
  std::int64_t n_opened = 0;
  std::map<ChannelKey, Channel> channels;
  std::map<AnyKey, Channel::Queue> from_anybody;  ///< Recvs that take any sender.
  std::string mispaired;  ///< The first pairing of differing operations, in words.

  std::int32_t size() const { return static_cast<std::int32_t>(members.size()); }
};

}  // namespace lockstep::sim
