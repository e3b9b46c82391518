// The members of a group, connected by NCCL.
#pragma once

#include <memory>

#include "lockstep/gpu/nccl/detail/communicator.h"
#include "lockstep/real/group/connection.h"

namespace lockstep::nccl {

/// What all groups of one process work on.
struct DeviceContext {
  std::shared_ptr<Api> api;
  std::int32_t device = 0;
  Stream compute = nullptr;  ///< Operations wait for what is queued there; null: default stream.
};

std::shared_ptr<peers::Connection> make_connection(const DeviceContext& context,
                                                   const peers::Membership& member,
                                                   std::unique_ptr<Communicator> communicator);

}  // namespace lockstep::nccl
