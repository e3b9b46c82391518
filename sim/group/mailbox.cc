#include "lockstep/sim/group/detail/mailbox.h"

#include <utility>

#include "lockstep/sim/group/detail/group_registry.h"
#include "lockstep/sim/group/detail/message_network.h"
#include "lockstep/sim/group/detail/pairing.h"
#include "lockstep/sim/group/detail/sim_process_group.h"
#include "lockstep/tensor/digest.h"

namespace lockstep::sim {

namespace {

bool is_send(const Signature& signature) { return signature.op == CollectiveOp::kSend; }

ChannelKey key_of(const Signature& signature, std::int32_t self) {
  return is_send(signature) ? ChannelKey{signature.peer, signature.tag, self}
                            : ChannelKey{self, signature.tag, signature.peer};
}

void push(Channel::Queue& queue, SimWork& work) {
  (queue.tail != nullptr ? queue.tail->next_in_channel : queue.head) = &work;
  queue.tail = &work;
}

SimWork& pop(Channel::Queue& queue) {
  SimWork& work = *queue.head;
  queue.head = std::exchange(work.next_in_channel, nullptr);
  if (queue.head == nullptr) queue.tail = nullptr;
  return work;
}

void remove(Channel::Queue& queue, SimWork& work) {
  SimWork* before = nullptr;
  for (SimWork* at = queue.head; at != &work; at = at->next_in_channel) before = at;
  SimWork* after = std::exchange(work.next_in_channel, nullptr);
  (before != nullptr ? before->next_in_channel : queue.head) = after;
  if (after == nullptr) queue.tail = before;
}

// The same in every run: who, to whom, under which tag, and its index.
ActionId delivery_id(const SimWork& send) {
  const Signature& signature = send.signature();
  std::uint64_t word = static_cast<std::uint64_t>(send.group().state().key);
  for (const std::int64_t part : {std::int64_t{send.member()},
                                  std::int64_t{signature.peer},
                                  std::int64_t{signature.tag},
                                  send.seq()}) {
    word = mix64(word + kGolden64 + static_cast<std::uint64_t>(part));
  }
  return action_id(ActionKind::kDeliver, word >> 4U);
}

std::optional<Difference> message_difference(const SimWork& send,
                                             const SimWork& recv,
                                             Pairing pairing) {
  const Signature& sent = send.signature();
  const Signature& wanted = recv.signature();
  if (pairing == Pairing::kNcclLike) return std::nullopt;
  const std::int64_t n_sent = sent.count * size_of(sent.dtype);
  const std::int64_t n_wanted = wanted.count * size_of(wanted.dtype);
  if (pairing == Pairing::kGlooLike) {
    if (n_sent == n_wanted) return std::nullopt;
    return Difference{"bytes", std::to_string(n_sent), std::to_string(n_wanted)};
  }
  if (sent.dtype != wanted.dtype) {
    return Difference{
        "dtype", std::string(name_of(sent.dtype)), std::string(name_of(wanted.dtype))};
  }
  if (sent.count == wanted.count) return std::nullopt;
  return Difference{"count", std::to_string(sent.count), std::to_string(wanted.count)};
}

// The oldest message of the lowest sender that no recv has taken.
SimWork* take_send(GroupState& group, SimWork& recv) {
  const Signature& wanted = recv.signature();
  const ChannelKey lowest{recv.member(), wanted.tag, 0};
  for (auto at = group.channels.lower_bound(lowest); at != group.channels.end(); ++at) {
    const auto& [receiver, tag, sender] = at->first;
    if (receiver != recv.member() || tag != wanted.tag) break;
    Channel& channel = at->second;
    if (channel.sends.head == nullptr) continue;
    recv.set_sender(sender, channel.recvs.n_posted++);
    return &pop(channel.sends);
  }
  return nullptr;
}

SimWork* take_recv(GroupState& group, const SimWork& send, Channel& channel) {
  if (channel.recvs.head != nullptr) return &pop(channel.recvs);
  const auto found = group.from_any_source.find({send.signature().peer, send.signature().tag});
  if (found == group.from_any_source.end() || found->second.head == nullptr) return nullptr;
  SimWork& recv = pop(found->second);
  recv.set_sender(send.member(), channel.recvs.n_posted++);
  return &recv;
}

}  // namespace

// Paired, and about to be delivered.
bool has_arrived(const SimWork& work) {
  if (work.partner == nullptr) return false;
  return (is_send(work.signature()) ? work : *work.partner).transfer_timer == 0;
}

std::int64_t Mailbox::next_number(GroupState& group,
                                  const Signature& signature,
                                  std::int32_t self) {
  Channel& channel = group.channels[key_of(signature, self)];
  return (is_send(signature) ? channel.sends : channel.recvs).n_posted++;
}

void Mailbox::arrive(GroupState& group, SimWork& work) {
  work.retain();
  if (work.from_any_source()) {
    if (SimWork* send = take_send(group, work)) return pair(*send, work);
    return push(group.from_any_source[{work.member(), work.signature().tag}], work);
  }
  Channel& channel = group.channels[key_of(work.signature(), work.member())];
  if (is_send(work.signature())) {
    if (SimWork* recv = take_recv(group, work, channel)) return pair(work, *recv);
    return push(channel.sends, work);
  }
  if (channel.sends.head != nullptr) return pair(pop(channel.sends), work);
  push(channel.recvs, work);
}

void Mailbox::pair(SimWork& send, SimWork& recv) {
  if (const auto difference = message_difference(send, recv, registry_->options().pairing)) {
    const std::string* detail = registry_->keep(describe(*difference, send, recv));
    for (SimWork* work : {&send, &recv}) {
      work->complete(CommStatus::kMismatch, detail);
      work->release();
    }
    return;
  }
  send.partner = &recv;
  recv.partner = &send;
  MessageNetwork* network = registry_->network();
  if (network == nullptr || !network->defer(send, recv)) make_ready(send);
}

void Mailbox::make_ready(SimWork& send) {
  const GroupState& group = send.group().state();
  registry_->world().enable({.id = delivery_id(send),
                             .kind = ActionKind::kDeliver,
                             .rank = send.rank(),
                             .footprint = channel_object(group, send.signature(), send.member())},
                            send);
}

void Mailbox::deliver(SimWork& send) {
  SimWork& recv = *send.partner;
  Transfer::deliver(send, recv);
  for (SimWork* work : {&send, &recv}) {
    work->partner = nullptr;
    work->complete(CommStatus::kOk, nullptr);
    work->release();
  }
}

void Mailbox::give_up(SimWork& work) {
  if (work.partner != nullptr) {
    SimWork& send = is_send(work.signature()) ? work : *work.partner;
    MessageNetwork* network = registry_->network();
    if (network == nullptr || !network->cancel_deferral(send)) {
      registry_->world().disable(delivery_id(send));
    }
    return deliver(send);
  }
  fail(work, CommStatus::kAborted, nullptr);
}

void Mailbox::fail(SimWork& work, CommStatus status, const std::string* detail) {
  GroupState& group = work.group().state();
  registry_->world().touch(channel_object(group, work.signature(), work.member()));
  if (SimWork* other = work.partner; other != nullptr) {
    registry_->network()->cancel_deferral(is_send(work.signature()) ? work : *other);
    for (SimWork* half : {&work, other}) {
      half->partner = nullptr;
      half->complete(status, detail);
      half->release();
    }
    return;
  }
  if (work.from_any_source()) {
    remove(group.from_any_source[{work.member(), work.signature().tag}], work);
  } else {
    Channel& channel = group.channels[key_of(work.signature(), work.member())];
    remove(is_send(work.signature()) ? channel.sends : channel.recvs, work);
  }
  work.complete(status, detail);
  work.release();
}

}  // namespace lockstep::sim
