// A collective as NCCL's calls: what is copied to the device, what runs there, what comes back.
#pragma once

#include <vector>

#include "lockstep/gpu/nccl/detail/communicator.h"
#include "lockstep/gpu/nccl/detail/staging.h"
#include "lockstep/real/group/connection.h"

namespace lockstep::nccl {

struct Schedule {
  std::vector<Copy> before;
  std::vector<Call> calls;
  bool grouped = false;
  std::vector<Copy> after;
};

/// Tensors' element types and NCCL's. A bool travels as u8.
Type type_of(DType dtype);

/// Why NCCL cannot do it, in c10d's words, or empty.
std::string refusal_of(const Signature& signature);

/// Requires: no refusal; `staging` was begun for the operation's buffers and keeps its pieces until
///     the schedule has run. `op` is the reduce operation, custom ones included.
///
/// Source: c10d's ProcessGroupNCCL for what is composed of other calls: gather, scatter, all_to_all
///     of sends and receives, uneven all_gather of broadcasts, uneven reduce_scatter of reductions.
Schedule schedule_of(const peers::Operation& operation,
                     const peers::Membership& member,
                     RedOp op,
                     Staging& staging);

/// Copies, calls, waits, copies back. Starts after the operation's mark on the compute stream.
peers::Completion run_schedule(Communicator& communicator,
                               const Schedule& schedule,
                               const peers::Operation& operation,
                               Deadline& deadline);

/// NCCL's own operation. Requires: not kPremulSum.
RedOp red_op_of(ReduceOp op, DType dtype);

}  // namespace lockstep::nccl
