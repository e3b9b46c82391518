// Messages as packets: headers, and long ones in several pieces.
#include <algorithm>
#include <utility>

#include "lockstep/sim/process/detail/packing.h"
#include "lockstep/sim/process/protocol.h"

namespace lockstep::sim {

namespace {

constexpr std::size_t kRequestHeader = 8;
constexpr std::size_t kReplyHeader = 16;
constexpr auto kLastRequest = static_cast<std::uint16_t>(RequestKind::kForget);
constexpr auto kLastReply = static_cast<std::uint16_t>(ReplyKind::kStop);
constexpr auto kMore = static_cast<std::uint16_t>(RequestFlag::kMore);

/// Calls `header(more)` for each piece and appends the piece to what it returns.
template <typename Header>
std::vector<std::string> cut(std::string_view body, std::size_t header_bytes, Header header) {
  const std::size_t room = kMaxPacket - header_bytes;
  std::vector<std::string> packets;
  do {
    const std::string_view piece = body.substr(0, room);
    body.remove_prefix(piece.size());
    packets.push_back(header(!body.empty()).text(piece).take());
  } while (!body.empty());
  return packets;
}

}  // namespace

std::vector<std::string> packets_of(const Request& request) {
  return cut(request.body, kRequestHeader, [&](bool more) {
    Packer header;
    header.add(static_cast<std::uint16_t>(request.kind))
        .add(static_cast<std::uint16_t>(request.flags | (more ? kMore : 0U)))
        .add(request.ticket);
    return header;
  });
}

std::vector<std::string> packets_of(const Reply& reply) {
  return cut(reply.body, kReplyHeader, [&](bool more) {
    Packer header;
    header.add(static_cast<std::uint16_t>(reply.kind))
        .add(static_cast<std::uint16_t>(reply.status | (more ? kMoreReply : 0U)))
        .add(reply.ticket)
        .add(reply.now.ns);
    return header;
  });
}

Result<bool> RequestAssembly::add(std::string_view packet, Request& request) {
  Unpacker header(packet);
  const auto kind = header.get<std::uint16_t>();
  const auto flags = header.get<std::uint16_t>();
  const auto ticket = header.get<std::uint32_t>();
  if (header.failed()) {
    return Error{"a packet of " + std::to_string(packet.size()) + " bytes has no header", {}};
  }
  if (kind == 0 || kind > kLastRequest) {
    return Error{"there are no requests of kind " + std::to_string(kind), {}};
  }
  if (inside_ && (partial_.kind != static_cast<RequestKind>(kind) || partial_.ticket != ticket)) {
    return Error{
        "another message in the middle of one of kind " + std::string(name_of(partial_.kind)), {}};
  }
  if (!inside_) partial_ = {.kind = static_cast<RequestKind>(kind), .flags = 0, .ticket = ticket};
  partial_.flags = static_cast<std::uint16_t>(flags & ~kMore);
  partial_.body += header.rest();
  if (partial_.body.size() > kMaxMessage) {
    return Error{"a message is longer than " + std::to_string(kMaxMessage) + " bytes", {}};
  }
  inside_ = (flags & kMore) != 0;
  if (inside_) return false;
  request = std::exchange(partial_, {});
  return true;
}

Result<bool> ReplyAssembly::add(std::string_view packet, Reply& reply) {
  Unpacker header(packet);
  const auto kind = header.get<std::uint16_t>();
  const auto status = header.get<std::uint16_t>();
  const auto ticket = header.get<std::uint32_t>();
  const auto now = header.get<std::int64_t>();
  if (header.failed() || kind == 0 || kind > kLastReply) {
    return Error{"a packet of " + std::to_string(packet.size()) + " bytes is not a reply", {}};
  }
  if (!inside_) partial_ = {};
  partial_.kind = static_cast<ReplyKind>(kind);
  partial_.status = static_cast<std::uint16_t>(status & ~kMoreReply);
  partial_.ticket = ticket;
  partial_.now = VirtualTime{now};
  partial_.body += header.rest();
  inside_ = (status & kMoreReply) != 0;
  if (inside_) return false;
  reply = std::exchange(partial_, {});
  return true;
}

}  // namespace lockstep::sim
