#include "lockstep/sim/group/detail/message_network.h"

#include <algorithm>
#include <exception>

#include "lockstep/base/check.h"
#include "lockstep/kernels/exact_observer.h"
#include "lockstep/sim/group/detail/group_registry.h"
#include "lockstep/sim/group/detail/sim_process_group.h"
#include "lockstep/sim/net/cost_model.h"
#include "lockstep/sim/net/flight.h"

namespace lockstep::sim {

namespace {

std::int64_t bytes_of(std::span<const Memory> list) {
  std::int64_t n_bytes = 0;
  for (const Memory& memory : list) n_bytes += memory.count * size_of(memory.dtype);
  return n_bytes;
}

OperationSize size_of_operation(std::span<SimWork* const> works) {
  const SimWork& model = *works.front();
  OperationSize size{.op = model.signature().op,
                     .n_ranks = static_cast<std::int32_t>(works.size())};
  for (const SimWork* work : works) {
    size.n_bytes = std::max({size.n_bytes, bytes_of(work->inputs()), bytes_of(work->outputs())});
  }
  return size;
}

// One buffer, or as many equal parts as members.
bool is_even(std::span<const Memory> list, std::size_t n_members) {
  if (list.size() == 1) return true;
  return list.size() == n_members && std::all_of(list.begin(), list.end(), [&](const Memory& part) {
           return part.count == list.front().count;
         });
}

}  // namespace

MessageNetwork::MessageNetwork(GroupRegistry& registry, World& world, const GroupOptions& options)
    : registry_(&registry),
      world_(&world),
      options_(&options),
      network_(options.net, world.n_ranks()) {
  network_.report_to(registry.traffic());
}

bool MessageNetwork::uses_messages(const MatchSlot& slot, const SimWork& work) const {
  const std::size_t n = slot.works.size();
  const CollectiveOp op = work.signature().op;
  const bool parts = op == CollectiveOp::kReduceScatter || op == CollectiveOp::kAllGather;
  if (!parts) return work.inputs().size() == 1 && work.outputs().size() == 1;
  return is_even(work.inputs(), n) && is_even(work.outputs(), n);
}

void MessageNetwork::post(MatchSlot& slot, SimWork& work) {
  if (options_->fidelity != Fidelity::kMessage) return;
  if (slot.n_arrived == 1 && uses_messages(slot, work)) {
    const Signature& signature = work.signature();
    const bool gathers = signature.op == CollectiveOp::kAllGather;
    const auto& parts = gathers ? work.inputs() : work.outputs();
    slot.flight = make_flight(network_,
                              slot,
                              {.op = signature.op,
                               .reduce = signature.reduce,
                               .premul = signature.premul,
                               .dtype = signature.dtype,
                               .count = parts.empty() ? 0 : parts.front().count,
                               .root = signature.root,
                               .kernels = &work.group().runtime().kernels(),
                               .members = slot.group->members},
                              options_->order);
  }
  if (slot.flight == nullptr) return;
  LOCKSTEP_CHECK(uses_messages(slot, work),
                 "the members of an operation split their buffers the same way");
  network_.set_now(world_->now());
  try {
    slot.flight->post(work.member(), work.inputs(), work.outputs());
  } catch (const InexactOperation&) {
    return registry_->matcher().fail_inexact(slot, std::current_exception());
  }
  arm();
}

bool MessageNetwork::defer(MatchSlot& slot) {
  const Duration alone =
      time_of(size_of_operation(slot.works), slot.group->members, options_->order, options_->net);
  const VirtualTime ready = std::max(world_->now(), slot.group->free_at);
  const auto up = next_up(options_->net.outages, slot.group->members, ready.ns);
  slot.cut = !up;
  if (!up) return true;
  const VirtualTime end = VirtualTime{*up} + alone;
  if (end <= world_->now()) return false;
  slot.group->free_at = end;
  if (Traffic* const traffic = registry_->traffic()) {
    for (const std::int32_t rank : slot.group->members) traffic->add(rank, {*up}, end);
  }
  slot.transfer_timer = ++n_deferred_;
  world_->at(end, [this, &slot, number = n_deferred_] {
    if (slot.transfer_timer != number) return;
    slot.transfer_timer = 0;
    registry_->matcher().make_ready(slot);
  });
  return true;
}

bool MessageNetwork::defer(SimWork& send, const SimWork& recv) {
  if (options_->net.is_free()) return false;
  network_.set_now(world_->now());
  const std::optional<VirtualTime> arrival =
      network_.pass(to_int(send.rank()), to_int(recv.rank()), bytes_of(send.inputs()));
  if (arrival && *arrival <= world_->now()) return false;
  send.transfer_timer = ++n_deferred_;
  sends_.emplace(send.transfer_timer, &send);
  if (!arrival) return true;
  world_->at(*arrival, [this, number = n_deferred_] {
    const auto found = sends_.find(number);
    if (found == sends_.end()) return;
    SimWork& arrived = *found->second;
    sends_.erase(found);
    arrived.transfer_timer = 0;
    registry_->mailbox().make_ready(arrived);
  });
  return true;
}

bool MessageNetwork::cancel_deferral(SimWork& send) {
  if (sends_.erase(send.transfer_timer) == 0) return false;
  send.transfer_timer = 0;
  return true;
}

void MessageNetwork::deliver_now(MatchSlot& slot) { network_.deliver_now(*slot.flight); }

void MessageNetwork::drop(MatchSlot& slot) {
  network_.drop(*slot.flight);
  slot.flight.reset();
}

void MessageNetwork::arm() {
  const std::optional<VirtualTime> next = network_.next_time();
  if (!next) return;
  const VirtualTime time = std::max(*next, world_->now());
  if (armed_ && *armed_ <= time) return;
  armed_ = time;
  world_->at(time, [this] { run(); });
}

void MessageNetwork::run() {
  const VirtualTime now = world_->now();
  if (armed_ && *armed_ <= now) armed_.reset();
  network_.run(now, now);
  arm();
}

}  // namespace lockstep::sim
