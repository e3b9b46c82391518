// A process group over any library that connects processes.
#pragma once

#include <memory>
#include <string_view>

#include "lockstep/comm/process_group.h"
#include "lockstep/real/group/connection.h"

namespace lockstep::peers {

/// The words by which a group says what it is. They outlive it.
struct GroupNames {
  std::string_view backend;          ///< "gloo", "nccl"
  std::string_view reduction_order;  ///< "gloo-ring", "nccl-ring"
};

/// The world group over `connection`. Every collective runs on a thread of the group, in the order
/// of posting; send and recv run in parallel.
///
/// Requires: the runtime outlives the group and its works; `member` says the place in the world.
/// Errors: what a Work's status says; ContractViolation for what Connection::refusal names.
std::unique_ptr<ProcessGroup> make_connected_group(Runtime& runtime,
                                                   const GroupNames& names,
                                                   const Membership& member,
                                                   std::shared_ptr<Connection> connection);

}  // namespace lockstep::peers
