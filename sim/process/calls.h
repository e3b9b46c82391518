// A request to post as the call of a group that it stands for.
#pragma once

#include "lockstep/comm/process_group.h"
#include "lockstep/sim/process/rank_process.h"

namespace lockstep::sim {

/// Posts it. `expires`: its timeout is one.
/// Errors: memory outside the arena, a wrong number of buffers, names that are not defined, and what
///     the group's own function does not accept: ContractViolation.
Work post(ProcessGroup& group,
          const PostRequest& request,
          const RankProcess& process,
          bool expires);

}  // namespace lockstep::sim
