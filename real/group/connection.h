// The connected members of one group, as a library between processes provides them.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/real/group/task.h"

namespace lockstep::peers {

/// What a library keeps with an operation from its posting to its end.
class Token {
 public:
  Token() = default;
  virtual ~Token() = default;
  Token(const Token&) = delete;
  Token& operator=(const Token&) = delete;
  Token(Token&&) = delete;
  Token& operator=(Token&&) = delete;
};

/// A posted operation with its buffers kept: the spans of a CollectiveCall end with post().
struct Operation {
  Signature signature;
  std::vector<Memory> inputs;
  std::vector<Memory> outputs;
  std::uint32_t tag = 0;                 ///< Distinguishes operations of one group on the wire.
  std::chrono::milliseconds timeout{0};  ///< Of this operation; 0 = the group's.
  std::shared_ptr<Token> token;          ///< From Connection::mark.
};

/// This process's place in a group.
struct Membership {
  std::int32_t rank = 0;  ///< In the group; -1: not a member.
  std::int32_t size = 1;
  std::string folder;   ///< Of the session.
  std::string name;     ///< Of the group within the session.
  std::int32_t id = 0;  ///< Of the group, for texts.
  std::chrono::milliseconds timeout{60'000};
  bool check_signatures = true;
  std::vector<std::int32_t> world_ranks;  ///< By group rank, for texts.
};

/// A full mesh of connections.
///
/// Requires: run(), largest() and split() on one thread at a time, in the same order on every
///     member; the rest from any.
class Connection {
 public:
  Connection() = default;
  virtual ~Connection() = default;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  Connection(Connection&&) = delete;
  Connection& operator=(Connection&&) = delete;

  /// Why the library has no such operation, or empty.
  virtual std::string refusal(const Signature& /*signature*/) const { return {}; }

  /// Called on the rank's thread as it posts: what of its earlier work must end first.
  virtual std::shared_ptr<Token> mark() { return nullptr; }

  /// Does one collective. With `check_signatures` the members first exchange what they are about to
  /// do. Never throws: a broken contract of the others or of the network is the ending.
  virtual Completion run(const Operation& operation) = 0;

  /// A message under way: `wait` blocks until it is sent or received.
  class Message {
   public:
    Message() = default;
    virtual ~Message() = default;
    Message(const Message&) = delete;
    Message& operator=(const Message&) = delete;
    Message(Message&&) = delete;
    Message& operator=(Message&&) = delete;

    virtual Completion wait() = 0;
  };

  /// Starts a send or a recv. Never blocks.
  virtual std::unique_ptr<Message> start(const Operation& operation) = 0;

  /// The largest of the members' numbers. Requires: called by all members, outside other runs.
  virtual Result<std::int64_t> all_reduce_max(std::int64_t number, std::uint32_t tag) = 0;

  /// The connection of a group of some of the members; null where `member.rank` is -1.
  /// Requires: called by all members.
  virtual Result<std::shared_ptr<Connection>> split(const Membership& member) = 0;
};

}  // namespace lockstep::peers
