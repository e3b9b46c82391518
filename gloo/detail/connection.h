// The connected members of one group, and what Gloo does between them.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/dist/process_group.h"
#include "lockstep/gloo/detail/task.h"
#include "lockstep/tensor/cpu_kernels.h"

namespace lockstep::gloo {

/// A posted operation with its buffers kept: the spans of a CollectiveCall end with post().
struct Operation {
  Signature signature;
  std::vector<Memory> inputs;
  std::vector<Memory> outputs;
  std::uint32_t tag = 0;                 ///< Tells operations of one group apart on the wire.
  std::chrono::milliseconds timeout{0};  ///< Of this operation; 0 = the group's.
};

/// A full mesh of connections.
///
/// Requires: run() on one thread at a time, in the same order on every member; the rest from any.
class Connection {
 public:
  virtual ~Connection() = default;

  /// Does one collective. With `check_signatures` the members first exchange what they are about to
  /// do. Never throws: a broken contract of the others or of the network is the ending.
  virtual Ending run(const Operation& operation) = 0;

  /// A message under way: `wait` blocks until it is sent or received.
  class Message {
   public:
    virtual ~Message() = default;
    virtual Ending wait() = 0;
  };

  /// Starts a send or a recv. Never blocks.
  virtual std::unique_ptr<Message> start(const Operation& operation) = 0;

  /// The largest of the members' numbers. Requires: called by all members, outside other runs.
  virtual Result<std::int64_t> largest(std::int64_t number, std::uint32_t tag) = 0;
};

struct ConnectionOptions {
  std::int32_t rank = 0;  ///< In the group.
  std::int32_t size = 1;
  std::string folder;  ///< Of the session.
  std::string name;    ///< Of the group within the session.
  std::string host_name;
  std::chrono::milliseconds timeout{60'000};
  bool check_signatures = true;
  std::vector<std::int32_t> world_ranks;  ///< By group rank, for texts.
};

Result<std::shared_ptr<Connection>> open_connection(const ConnectionOptions& options);

}  // namespace lockstep::gloo
