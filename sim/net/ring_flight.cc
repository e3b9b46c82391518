#include "lockstep/sim/net/detail/ring_flight.h"

#include <algorithm>
#include <utility>

namespace lockstep::sim {

namespace {

constexpr std::int32_t kHandOver = -2;  // A hop off the ring: the result goes to its owner.

std::int64_t chunk_of(Network& network, const FlightJob& job) {
  const std::int64_t bytes = network.options().chunk_bytes;
  return bytes == 0 ? INT64_MAX : std::max<std::int64_t>(1, bytes / size_of(job.dtype));
}

}  // namespace

RingFlight::RingFlight(Network& network,
                       FlightClient& client,
                       const FlightJob& job,
                       const ReductionOrder& order)
    : RingFlight(
          network, client, job, order.is_nccl(), plan_ring(job, order, chunk_of(network, job))) {}

RingFlight::RingFlight(
    Network& network, FlightClient& client, const FlightJob& job, bool nccl, RingPlan plan)
    : Flight(network, client, job),
      arithmetic_(job, nccl),
      rings_(std::move(plan.rings)),
      waiting_(n_members(), -1),
      reduces_(job.op == CollectiveOp::kAllReduce || job.op == CollectiveOp::kReduceScatter),
      scatters_(job.op == CollectiveOp::kReduceScatter),
      last_hop_(static_cast<std::int32_t>(n_members()) - 1) {
  if (job.op == CollectiveOp::kAllReduce) last_hop_ *= 2;
  std::int64_t n_elems = 0;
  for (const RingRoute& route : plan.routes) n_elems += route.count;
  data_.resize(static_cast<std::size_t>(n_elems * elem_bytes()));
  std::byte* data = data_.data();
  for (const RingRoute& route : plan.routes) {
    tokens_.push_back({.data = data,
                       .begin = route.begin,
                       .count = route.count,
                       .part = route.part,
                       .ring = route.ring,
                       .place = route.start});
    data += route.count * elem_bytes();
  }
  expect_results();
  // Tokens wait for their first member as they would for any other; the first one on top.
  for (std::size_t i = tokens_.size(); i-- > 0;) {
    std::int32_t& top = waiting_[static_cast<std::size_t>(member_at(tokens_[i]))];
    tokens_[i].next_waiting = std::exchange(top, static_cast<std::int32_t>(i));
  }
}

// An all_reduce leaves each token's result everywhere. Where ranges have an owner, all must have
// been visited for every range, and the owner gets its own; where nothing is reduced, the
// first member is done when the next one has its data.
void RingFlight::expect_results() {
  const auto n_tokens = static_cast<std::int64_t>(tokens_.size());
  for (std::size_t m = 0; m < n_members(); ++m) {
    expect(static_cast<std::int32_t>(m), n_tokens);
  }
  if (!scatters_) return;
  for (const Token& token : tokens_) expect(token.part, 1);
}

void RingFlight::on_post(std::int32_t member) {
  std::int32_t index = std::exchange(waiting_[static_cast<std::size_t>(member)], -1);
  while (index >= 0) {
    const std::int32_t next =
        std::exchange(tokens_[static_cast<std::size_t>(index)].next_waiting, -1);
    visit(index);
    index = next;
  }
}

void RingFlight::on_arrival(std::int32_t token, std::int32_t hop) {
  Token& arrived = tokens_[static_cast<std::size_t>(token)];
  if (hop == kHandOver) return copy_result(arrived, arrived.part);
  const std::int32_t member = member_at(arrived);
  if (has_posted(member)) return visit(token);
  std::int32_t& top = waiting_[static_cast<std::size_t>(member)];
  arrived.next_waiting = std::exchange(top, token);
}

void RingFlight::add(Token& token, std::int32_t member) {
  const std::byte* own = input(member, scatters_ ? token.part : 0, token.begin);
  if (token.hop > 0) return arithmetic_.join(token.data, own, token.count);
  arithmetic_.begin(token.data, own, token.count);
}

void RingFlight::copy_result(const Token& token, std::int32_t member) {
  const std::int32_t part = job().op == CollectiveOp::kAllGather ? token.part : 0;
  copy_elems(output(member, part, token.begin), token.data, token.count);
  happened(member);
}

// Nothing is added: the first member's data are left with all members.
void RingFlight::pass_along(const Token& token, std::int32_t member) {
  const std::int32_t part = job().op == CollectiveOp::kAllGather ? token.part : 0;
  if (token.hop == 0) {
    copy_elems(token.data, input(member, 0, token.begin), token.count);
    copy_elems(output(member, part, token.begin), token.data, token.count);
    return;
  }
  copy_result(token, member);
  if (token.hop > 1) return;
  // The first member's message has been delivered: its memory is its own again.
  const auto& ring = rings_[static_cast<std::size_t>(token.ring)];
  const auto place = static_cast<std::size_t>(token.place);
  happened(ring[place == 0 ? ring.size() - 1 : place - 1]);
}

void RingFlight::reduce_at(Token& token, std::int32_t member) {
  const auto last = static_cast<std::int32_t>(n_members()) - 1;
  if (token.hop > last) return copy_result(token, member);
  add(token, member);
  if (token.hop == last) arithmetic_.finish(token.data, token.count);
  if (scatters_) {
    happened(member);
  } else if (token.hop == last) {
    copy_result(token, member);
  }
}

// The token is at its place: it takes or gives, and continues.
void RingFlight::visit(std::int32_t index) {
  Token& token = tokens_[static_cast<std::size_t>(index)];
  const std::int32_t member = member_at(token);
  if (reduces_) {
    reduce_at(token, member);
  } else {
    pass_along(token, member);
  }
  if (token.hop == last_hop_) return end_walk(token, index, member);
  ++token.hop;
  if (++token.place == static_cast<std::int32_t>(n_members())) token.place = 0;
  send(member, member_at(token), token.count, {this, index, 0});
}

void RingFlight::end_walk(Token& token, std::int32_t index, std::int32_t member) {
  if (!scatters_) return;
  if (token.part == member) return copy_result(token, member);
  send(member, token.part, token.count, {this, index, kHandOver});
}

}  // namespace lockstep::sim
