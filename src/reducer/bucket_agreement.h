// Agreeing on one bucket layout: rank 0's.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/comm/process_group.h"

namespace lockstep {

/// Replaces `buckets` by rank 0's: two i32 broadcasts, of all indices and the number of buckets
/// (n_params + 1 elements), then of the buckets' lengths.
///
/// Requires: every index below n_params appears once.
/// Source: c10d reducer.cpp, sync_bucket_indices.
void agree_on_buckets(ProcessGroup& group,
                      std::vector<std::vector<std::int32_t>>& buckets,
                      std::size_t n_params,
                      const OpOptions& options);

}  // namespace lockstep
