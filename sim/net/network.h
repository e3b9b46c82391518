// Messages under way: handlers on one event queue, no fibers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/base/types.h"
#include "lockstep/sim/net/detail/event_queue.h"
#include "lockstep/sim/net/links.h"
#include "lockstep/sim/net/traffic.h"

namespace lockstep::sim {

/// The wires of one world. Flights (flight.h) send over it; the owner of the clock runs it.
///
/// Deterministic: messages that arrive at one moment are handled in the order of sending.
class Network {
 public:
  Network(const NetOptions& options, std::int32_t n_ranks);

  /// Lets everything happen that can: arrivals up to `now`, and beyond it those before
  /// `quiet_until`, since nothing else happens in between. What a rank would notice happens at
  /// its time, never ahead.
  /// Returns: when the next event is due, if there is one.
  std::optional<VirtualTime> run(VirtualTime now, VirtualTime quiet_until);

  /// When the next event is due, if there is one.
  std::optional<VirtualTime> next_time() const;

  /// What is sent from now on is sent at `now`.
  void set_now(VirtualTime now) { now_ = now.ns * kPsPerNs; }

  /// A message that no flight carries.
  /// Returns: when it has arrived. Nothing: never, the link is down permanently.
  std::optional<VirtualTime> pass(std::int32_t from, std::int32_t to, std::int64_t n_bytes);

  /// The flight continues without links, to its end: its memory is about to go.
  void deliver_now(Flight& flight);
  /// Forgets all messages of a flight.
  void drop(const Flight& flight);

  /// Reports when messages are under way, from now on; null: no longer.
  void report_to(Traffic* traffic) { traffic_ = traffic; }

  const NetOptions& options() const { return options_; }

  std::int64_t n_messages() const { return n_messages_; }

  // -- called by flights; ranks are those of the world
  void send(std::int32_t from,
            std::int32_t to,
            std::int64_t n_bytes,
            const EventQueue::Event& arrival);
  /// A member has its result, at this moment.
  void complete(Flight& flight, std::int32_t member);

 private:
  std::int64_t pass_links(std::int32_t from,
                          std::int32_t to,
                          std::int64_t n_bytes,
                          std::int64_t start);
  std::optional<std::int64_t> begin(std::int32_t from, std::int32_t to) const;
  static void handle(const EventQueue::Event& event);
  std::vector<EventQueue::Event> take(const Flight& flight);

  NetOptions options_;
  bool is_free_;
  Links links_;
  EventQueue queue_;
  std::int64_t now_ = 0;  // Picoseconds.
  std::int64_t n_messages_ = 0;
  std::size_t n_lost_ = 0;
  Traffic* traffic_ = nullptr;
  const Flight* delivered_now_ = nullptr;
  std::vector<EventQueue::Event> immediate_;
};

}  // namespace lockstep::sim
