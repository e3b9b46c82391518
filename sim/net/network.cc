#include "lockstep/sim/net/network.h"

#include <algorithm>
#include <exception>

#include "lockstep/kernels/exact_observer.h"
#include "lockstep/sim/net/flight.h"

namespace lockstep::sim {

namespace {

constexpr std::int32_t kDone = -1;  // In the place of a hop: the member `token` has its result.

VirtualTime in_ns(std::int64_t ps) { return {(ps + kPsPerNs - 1) / kPsPerNs}; }

}  // namespace

Network::Network(const NetOptions& options, std::int32_t n_ranks)
    : options_(options), is_free_(options.is_free()), links_(options, n_ranks) {
  std::sort(options_.lost.begin(), options_.lost.end());
}

void Network::handle(const EventQueue::Event& event) {
  if (event.hop == kDone) {
    event.flight->client().on_member_done(event.token);
    return;
  }
  try {
    event.flight->on_arrival(event.token, event.hop);
  } catch (const InexactOperation&) {
    event.flight->client().on_inexact(std::current_exception());
  }
}

std::optional<VirtualTime> Network::run(VirtualTime now, VirtualTime quiet_until) {
  constexpr std::int64_t kEver = INT64_MAX / kPsPerNs;
  const std::int64_t now_ps = std::min(now.ns, kEver) * kPsPerNs;
  std::int64_t quiet_ps = std::min(quiet_until.ns, kEver) * kPsPerNs;
  while (!queue_.empty()) {
    const std::int64_t time = queue_.next_time();
    const bool noticed = queue_.next().hop == kDone;
    if (time > now_ps && (noticed || time >= quiet_ps)) return in_ns(time);
    now_ = time;
    // A rank with a result may act on it: what comes later must wait for that.
    if (noticed) quiet_ps = now_ps;
    handle(queue_.pop());
  }
  return std::nullopt;
}

std::optional<VirtualTime> Network::next_time() const {
  if (queue_.empty()) return std::nullopt;
  return in_ns(queue_.next_time());
}

// When a message that is sent now gets on its link.
std::optional<std::int64_t> Network::begin(std::int32_t from, std::int32_t to) const {
  if (options_.outages.empty()) return now_;
  const std::optional<std::int64_t> up =
      next_up(options_.outages, from, to, (now_ + kPsPerNs - 1) / kPsPerNs);
  if (!up) return std::nullopt;
  return std::max(now_, *up * kPsPerNs);
}

std::int64_t Network::pass_links(std::int32_t from,
                                 std::int32_t to,
                                 std::int64_t n_bytes,
                                 std::int64_t start) {
  const std::int64_t arrival = links_.pass(from, to, n_bytes, start);
  if (traffic_ != nullptr) {
    for (const std::int32_t rank : {from, to}) {
      traffic_->add(rank, {start / kPsPerNs}, in_ns(arrival));
    }
  }
  return arrival;
}

std::optional<VirtualTime> Network::pass(std::int32_t from, std::int32_t to, std::int64_t n_bytes) {
  const std::optional<std::int64_t> start = begin(from, to);
  if (!start) return std::nullopt;
  return in_ns(pass_links(from, to, n_bytes, *start));
}

void Network::send(std::int32_t from,
                   std::int32_t to,
                   std::int64_t n_bytes,
                   const EventQueue::Event& arrival) {
  const std::int64_t number = n_messages_++;
  if (n_lost_ < options_.lost.size() && options_.lost[n_lost_] == number) {
    ++n_lost_;
    return;
  }
  if (arrival.flight == delivered_now_) {
    immediate_.push_back(arrival);
    return;
  }
  if (is_free_) return queue_.push(now_, arrival);
  const std::optional<std::int64_t> start = begin(from, to);
  if (start) queue_.push(pass_links(from, to, n_bytes, *start), arrival);
}

void Network::complete(Flight& flight, std::int32_t member) {
  const EventQueue::Event event{&flight, member, kDone};
  if (&flight == delivered_now_) {
    immediate_.push_back(event);
  } else {
    queue_.push(now_, event);
  }
}

std::vector<EventQueue::Event> Network::take(const Flight& flight) {
  std::vector<EventQueue::Event> taken;
  EventQueue others;
  while (!queue_.empty()) {
    const std::int64_t time = queue_.next_time();
    const EventQueue::Event event = queue_.pop();
    if (event.flight == &flight) {
      taken.push_back(event);
    } else {
      others.push(time, event);
    }
  }
  queue_ = std::move(others);
  return taken;
}

void Network::deliver_now(Flight& flight) {
  immediate_ = take(flight);
  delivered_now_ = &flight;
  std::size_t next = 0;
  while (next < immediate_.size())
    handle(EventQueue::Event(immediate_[next++]));  // May add to the list.
  delivered_now_ = nullptr;
  immediate_.clear();
}

void Network::drop(const Flight& flight) {
  take(flight);
  if (&flight == delivered_now_) immediate_.clear();
}

}  // namespace lockstep::sim
