// The sum of sparse gradients over ranks.
#pragma once

#include "lockstep/autograd/sparse_rows.h"
#include "lockstep/comm/process_group.h"

namespace lockstep {

/// The rows of all ranks, coalesced: each rank's list, itself coalesced, is gathered (first what
/// the lists are like, then their rows, then their values) and merged in ascending rank order.
///
/// Blocks: three all_gathers, each waited for before the next is posted.
/// Errors: ReducerError on the ranks that see a table of a different shape; CommError when a gather
///     fails.
/// Source: ProcessGroupGloo.cpp, AsyncSparseAllreduceWork; its metadata are nine i64, too.
Ref<SparseRows> all_reduce_rows(ProcessGroup& group,
                                const SparseRows& rows,
                                const OpOptions& options);

}  // namespace lockstep
