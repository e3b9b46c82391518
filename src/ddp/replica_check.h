// Do all ranks wrap the same model?
#pragma once

#include <span>

#include "lockstep/autograd/variable.h"
#include "lockstep/comm/process_group.h"

namespace lockstep {

/// Compares the number of parameters over all ranks and their sizes with rank 0's. Two collectives:
/// an all-gather of one i64, a broadcast of all sizes and strides.
///
/// Errors: ReducerError with PyTorch's text. Every rank sees a differing count; rank 0 never sees a
///     differing size: it continues and blocks in its next collective, as PyTorch does.
/// Source: c10d reducer.cpp, verify_params_across_processes.
void verify_replicas(ProcessGroup& group,
                     std::span<const NamedVariable> parameters,
                     const OpOptions& options);

}  // namespace lockstep
