#include "lockstep/real/gloo/detail/exchange.h"

#include <cstring>
#include <gloo/transport/unbound_buffer.h>
#include <memory>

namespace lockstep::gloo {

namespace {

constexpr std::uint64_t kExchange = std::uint64_t{1} << 56U;
constexpr std::uint64_t kMessage = std::uint64_t{2} << 56U;

using Buffers = std::vector<std::unique_ptr<::gloo::transport::UnboundBuffer>>;

void copy_own(const std::vector<Part>& sends, const std::vector<Part>& recvs, std::int32_t self) {
  for (const Part& send : sends) {
    if (send.peer != self) continue;
    for (const Part& recv : recvs) {
      if (recv.peer == self && recv.bytes > 0) std::memmove(recv.data, send.data, recv.bytes);
    }
  }
}

}  // namespace

std::uint64_t exchange_slot(std::uint32_t tag) { return kExchange | tag; }

std::uint64_t message_slot(std::int32_t tag) { return kMessage | static_cast<std::uint32_t>(tag); }

void exchange(::gloo::Context& context,
              const std::vector<Part>& sends,
              const std::vector<Part>& recvs,
              std::uint32_t tag,
              std::chrono::milliseconds timeout) {
  copy_own(sends, recvs, context.rank);
  const std::uint64_t slot = exchange_slot(tag);
  Buffers incoming;
  for (const Part& recv : recvs) {
    if (recv.peer == context.rank || recv.bytes == 0) continue;
    incoming.push_back(context.createUnboundBuffer(recv.data, recv.bytes));
    incoming.back()->recv(recv.peer, slot);
  }
  Buffers outgoing;
  for (const Part& send : sends) {
    if (send.peer == context.rank || send.bytes == 0) continue;
    outgoing.push_back(context.createUnboundBuffer(send.data, send.bytes));
    outgoing.back()->send(send.peer, slot);
  }
  for (const auto& buffer : incoming) buffer->waitRecv(nullptr, timeout);
  for (const auto& buffer : outgoing) buffer->waitSend(nullptr, timeout);
}

}  // namespace lockstep::gloo
