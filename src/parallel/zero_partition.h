// Which rank updates which parameter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep {

/// By rank, then by parameter group: indices into the flat list of all parameters, in the order in
/// which they were assigned.
using ZeroPartition = std::vector<std::vector<std::vector<std::size_t>>>;

/// Deals parameters out, group by group and largest first (equal ones in order), each to the rank
/// that holds the fewest elements so far, the lowest of such ranks. What earlier groups assigned
/// counts.
///
/// `group_sizes`: elements of each parameter, by group.
/// Returns: n_ranks entries, each with an entry for every group, which may be empty.
/// Source: ZeroRedundancyOptimizer._partition_parameters.
ZeroPartition partition_parameters(std::span<const std::vector<std::int64_t>> group_sizes,
                                   std::int32_t n_ranks);

}  // namespace lockstep
