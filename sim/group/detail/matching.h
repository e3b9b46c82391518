// Where the members of a group meet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lockstep/sim/fiber/world.h"
#include "lockstep/sim/group/detail/sim_work.h"
#include "lockstep/sim/net/flight.h"

namespace lockstep::sim {

class GroupRegistry;  // group_registry.h
class Matcher;
class SimProcessGroup;
struct GroupState;

/// The meeting of all members at one sequence number; reused for later numbers.
struct MatchSlot final : ActionHandler, FlightClient {
  void on_action(const Action& action) override;
  void on_member_done(std::int32_t member) override;
  void on_inexact(std::exception_ptr problem) override;

  bool has_result(std::size_t member) const { return member < done.size() && done[member] != 0; }

  /// All are here, and the transfer takes its time.
  bool under_way() const {
    return transfer_timer != 0 || (flight != nullptr && n_lost == 0 && n_arrived == n_members());
  }

  std::int32_t n_members() const { return static_cast<std::int32_t>(works.size()); }

  Matcher* matcher = nullptr;
  GroupState* group = nullptr;
  std::int64_t seq = 0;
  Ref<SharedSignature> signature;  ///< What it was called with last: works share it.
  std::vector<SimWork*> works;  ///< By group rank; null: not posted, or given up by an ended rank.
  SimWork* first = nullptr;     ///< The first to arrive: later ones are compared with it.
  std::int32_t n_arrived = 0;
  std::int32_t n_lost = 0;           ///< Arrived, then their rank ended before the transfer.
  bool ready = false;                ///< Its transfer is enabled.
  std::uint64_t transfer_timer = 0;  ///< Number of the timer that ends its transfer, 0 = none.
  std::unique_ptr<Flight> flight;    ///< Its messages under way.
  std::vector<std::uint8_t> done;    ///< With a flight, by member: it has completed.
  std::vector<std::int32_t> early;   ///< Have their results before all have called.
  std::int32_t n_done = 0;
  bool hung = false;  ///< All arrived with operations that never complete together.
  bool cut = false;   ///< All arrived, but links between them are down permanently.
  bool failed = false;
  CommStatus status = CommStatus::kOk;
  const std::string* detail = nullptr;
};

std::unique_ptr<GroupState> make_group(std::int32_t id, std::vector<std::int32_t> members);

/// Where a rank stands among the members; their number if it is none of them. In the world it is its own place: a million
/// ranks that end would search for the square of their number otherwise.
std::size_t place_of(Rank rank, std::span<const std::int32_t> members);

/// What posts touch: posts at one sequence number conflict, and so do messages of one receiver and
/// tag from any sender (a recv may take any sender); all else commutes.
std::uint64_t slot_object(GroupState& group, std::int64_t seq);
std::uint64_t channel_object(const GroupState& group,
                             const Signature& signature,
                             std::int32_t self);
std::uint64_t split_object(const GroupState& group, std::int64_t k);

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
  std::int32_t id = 0;  ///< What its members call it, and the trace.
  /// The id, or where ranks list other members under it, a number that no other group has.
  std::int32_t key = 0;
  std::string name;                       ///< Where the id says less: shown instead.
  std::vector<std::int32_t> members;      ///< World ranks by group rank.
  std::vector<SimProcessGroup*> handles;  ///< By group rank; null: not made yet, or gone.
  std::vector<MatchSlot*> window;         ///< Ring by sequence number, a power of two.
  std::int64_t first_open = 0;            ///< All numbers below are closed.
  std::int64_t n_opened = 0;

  /// What posts at one sequence number touch. All members ask for it, one after the other.
  struct Meeting {
    std::int64_t seq = -1;
    std::uint64_t object = 0;
  };

  Meeting last_meeting;

  Ref<SharedSignature> message;  ///< What a send or recv was called with last.
  std::map<ChannelKey, Channel> channels;
  std::map<AnyKey, Channel::Queue> from_any_source;  ///< Recvs that take any sender.
  VirtualTime free_at;                               ///< Its last transfer ends.
  std::string mispaired;  ///< The first pairing of differing operations, as text.

  std::int32_t size() const { return static_cast<std::int32_t>(members.size()); }
};

}  // namespace lockstep::sim
