// What can be wrong with the arguments of a wrapper before anything is sent.
#pragma once

#include <span>

#include "lockstep/ddp/ddp.h"

namespace lockstep {

/// Throws ReducerError with PyTorch's text for the first argument that it would refuse, in its
/// order. `parameters`: those that are not ignored, frozen ones included.
///
/// Source: torch DistributedDataParallel.__init__.
void check_ddp_arguments(std::span<const NamedVariable> parameters, const DdpOptions& options);
/// Throws ContractViolation unless the parameters belong to the group's own rank.
void check_one_rank(std::span<const NamedVariable> parameters, ProcessGroup& group);

}  // namespace lockstep
