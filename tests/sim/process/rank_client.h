// A rank that speaks the protocol as a process would, for tests of its coordinator.
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include "lockstep/sim/process/protocol.h"

namespace lockstep::sim::testing {

/// The coordinator ended this rank, or is gone.
class Stopped : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The answer to a call.
struct Answer {
  std::uint16_t status = 0;
  std::int32_t peer = -1;
  std::string text;
  VirtualTime now;

  bool ok() const { return status == 0; }

  bool is(CommStatus expected) const { return status == static_cast<std::uint16_t>(expected); }

  bool is(CallProblem expected) const { return status == static_cast<std::uint16_t>(expected); }
};

struct Value {
  ValueStatus status = ValueStatus::kOk;
  std::string bytes;
  VirtualTime now;

  std::int64_t number() const { return decode_i64(bytes).value(); }
};

/// Elements in the arena.
struct Floats {
  ArenaSlice slice;
  std::span<float> values;
};

class RankClient {
 public:
  RankClient(int rank, int n_ranks, int socket, std::span<std::byte> arena)
      : rank_(rank), n_ranks_(n_ranks), socket_(socket), arena_(arena) {}

  int rank() const { return rank_; }

  int n_ranks() const { return n_ranks_; }

  int socket() const { return socket_; }

  // -- memory
  Floats floats(std::vector<float> values) {
    const std::size_t bytes = values.size() * sizeof(float);
    if (used_ + bytes > arena_.size()) throw std::length_error("the arena is full");
    auto* data = reinterpret_cast<float*>(arena_.data() + used_);
    if (bytes > 0) std::memcpy(data, values.data(), bytes);
    const Floats made{{used_, static_cast<std::int64_t>(values.size())}, {data, values.size()}};
    used_ += (bytes + 63) / 64 * 64;
    return made;
  }

  Floats slice(const Floats& whole, std::size_t first, std::size_t n) const {
    return {{whole.slice.offset + first * sizeof(float), static_cast<std::int64_t>(n)},
            whole.values.subspan(first, n)};
  }

  void free_all() { used_ = 0; }

  // -- requests
  std::uint32_t name(const std::string& text) {
    const auto [known, is_new] =
        names_.try_emplace(text, static_cast<std::uint32_t>(names_.size()));
    if (is_new)
      send({.kind = RequestKind::kName, .body = encode(NameRequest{known->second, text})});
    return known->second;
  }

  void start() { point({}); }

  Value point(const Point& point) {
    return ask({.kind = RequestKind::kPoint, .body = encode(PointRequest{point})});
  }

  Value open(const std::string& group, std::vector<std::int32_t> members) {
    GroupRequest request;
    request.name = name(group);
    request.members = std::move(members);
    request.file = name("train.py");
    request.line = 1;
    return ask({.kind = RequestKind::kOpenGroup, .body = encode(request)});
  }

  /// The default group, as every program opens it first.
  std::int32_t join() {
    start();
    std::vector<std::int32_t> all;
    for (std::int32_t r = 0; r < n_ranks_; ++r) all.push_back(r);
    return handle(open("0", all));
  }

  static std::int32_t handle(const Value& opened) {
    if (opened.status != ValueStatus::kOk) throw std::logic_error(opened.bytes);
    return decode_i32(opened.bytes).value();
  }

  void close(std::int32_t group) {
    send({.kind = RequestKind::kCloseGroup, .body = encode_i32(group)});
  }

  std::uint32_t post(PostRequest request, std::int32_t line = 10) {
    request.file = name("train.py");
    request.line = line;
    const std::uint32_t ticket = ++n_tickets_;
    send({.kind = RequestKind::kPost, .ticket = ticket, .body = encode(request)});
    return ticket;
  }

  Answer wait(std::uint32_t ticket) {
    send({.kind = RequestKind::kWait, .ticket = ticket});
    return done();
  }

  bool test(std::uint32_t ticket) {
    return ask({.kind = RequestKind::kTest, .ticket = ticket}).bytes == std::string(1, '\1');
  }

  void forget(std::uint32_t ticket) { send({.kind = RequestKind::kForget, .ticket = ticket}); }

  /// Posts and waits, in one message.
  Answer call(PostRequest request, std::int32_t line = 10, bool expires = false) {
    request.file = name("train.py");
    request.line = line;
    const auto flags = static_cast<unsigned>(RequestFlag::kWaits) |
                       (expires ? static_cast<unsigned>(RequestFlag::kExpires) : 0U);
    send({.kind = RequestKind::kPost,
          .flags = static_cast<std::uint16_t>(flags),
          .ticket = ++n_tickets_,
          .body = encode(request)});
    return done();
  }

  Value store(StoreRequest request, bool expires = false) {
    request.file = name("train.py");
    request.line = 20;
    const auto flags = expires ? static_cast<std::uint16_t>(RequestFlag::kExpires) : 0U;
    return ask({.kind = RequestKind::kStore,
                .flags = static_cast<std::uint16_t>(flags),
                .body = encode(request)});
  }

  Value sleep(std::int64_t ns) {
    return ask({.kind = RequestKind::kSleep, .body = encode_i64(ns)});
  }

  void log(const std::string& text) { send({.kind = RequestKind::kLog, .body = text}); }

  void end(std::int32_t code = 0, const std::string& text = "") {
    send({.kind = RequestKind::kEnd, .body = encode(EndRequest{code, text})});
  }

  void send(const Request& request) {
    if (before_send) before_send();
    for (const std::string& packet : packets_of(request)) send_packet(packet);
  }

  void send_packet(const std::string& packet) {
    if (::send(socket_, packet.data(), packet.size(), MSG_NOSIGNAL) < 0)
      throw Stopped("the coordinator is gone");
  }

  Reply receive() {
    for (;;) {
      std::vector<char> packet(kMaxPacket);
      const ssize_t n = ::recv(socket_, packet.data(), packet.size(), 0);
      if (n <= 0) throw Stopped("the coordinator is gone");
      Reply reply;
      const auto complete = assembly_.add({packet.data(), static_cast<std::size_t>(n)}, reply);
      if (!complete.ok()) throw std::logic_error(complete.error().message);
      if (!complete.value()) continue;
      if (reply.kind == ReplyKind::kStop) throw Stopped(reply.body);
      if (reply.kind != ReplyKind::kAskStack) return reply;
      if (shows_stack) {
        send({.kind = RequestKind::kStack, .body = "stack of rank " + std::to_string(rank_)});
      }
    }
  }

  bool shows_stack = true;
  std::function<void()> before_send;  // To be slow at random.

 private:
  Value ask(const Request& request) {
    send(request);
    const Reply reply = receive();
    if (reply.kind != ReplyKind::kValue) throw std::logic_error("not a VALUE");
    return {static_cast<ValueStatus>(reply.status), reply.body, reply.now};
  }

  Answer done() {
    const Reply reply = receive();
    if (reply.kind != ReplyKind::kDone) throw std::logic_error("not a DONE");
    return {
        reply.status, decode_i32(reply.body.substr(0, 4)).value(), reply.body.substr(4), reply.now};
  }

  int rank_;
  int n_ranks_;
  int socket_;
  std::span<std::byte> arena_;
  std::size_t used_ = 0;
  std::map<std::string, std::uint32_t> names_;
  std::uint32_t n_tickets_ = 0;
  ReplyAssembly assembly_;
};

}  // namespace lockstep::sim::testing
