// Process groups over NCCL: what PyTorch uses between processes with GPUs.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/gpu/nccl/api.h"

namespace lockstep::nccl {

struct NcclOptions {
  std::int32_t rank = 0;
  std::int32_t size = 1;
  std::string rendezvous;                     ///< A folder that all ranks see; made when missing.
  std::chrono::milliseconds timeout{60'000};  ///< Of the rendezvous and of every operation.
  bool check_signatures = true;               ///< Compare what ranks issue before each collective.
  std::int32_t device = 0;                    ///< This process's GPU.
  Stream compute_stream = nullptr;            ///< Where tensors are made; null: default stream.
};

/// The world group of this process, over the libraries that `api` calls.
///
/// Collectives are queued on a stream next to the compute stream by a thread of the group, in the
/// order of posting, each after what the compute stream held when it was posted; so reductions
/// overlap with backward. That thread watches over NCCL, which has no timeouts: an asynchronous
/// error, a deadline, a peer that gave up or whose process is gone end the operation,
/// abort the communicator and tell the other ranks. Buffers may lie in host, managed or device
/// memory; they are staged through device memory.
///
/// Requires: called once in each of `size` processes (or threads) with the same folder, which no
///     other world uses at the same time; the runtime outlives the group and its works.
/// Errors: here: the rendezvous failed, NCCL libraries of different versions, NCCL's words when it
///     does not start. Later: a Work's status is kTimedOut, kPeerLost, kMismatch or kAborted (an
///     error of this rank's NCCL or CUDA), with the operation, the ranks and NCCL's own text as
///     detail; after any but kMismatch all later operations of the group fail at once.
///     ContractViolation for what NCCL lacks: bitwise reductions and receives from any rank.
/// Deterministic: as far as NCCL is; `nccl-ring` if it is configured to use one ring
///     (docs/real_ranks.md).
/// Source: c10d's ProcessGroupNCCL; it has no tagged messages.
Result<std::unique_ptr<ProcessGroup>> connect(std::shared_ptr<Api> api,
                                              const NcclOptions& options,
                                              Runtime& runtime);

}  // namespace lockstep::nccl
