// NCCL's orders of summation: channels, rings, double binary trees.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/comm/reduction_order.h"

namespace lockstep::detail {

/// Requires: job.count > 0, order is kNcclRing or kNcclTree.
void reduce_as_nccl(Kernels& kernels, const RankReduction& job, const ReductionOrder& order);

/// Where the parts of the channels end, ascending, the last one being `count`; channels that get
/// nothing are left out.
///
/// Units: traffic = how often NCCL counts a byte: 2 for an all-reduce, N for a reduce_scatter.
/// Source: NCCL enqueue.cc, scheduleCollTasksToPlan.
std::vector<std::int64_t> channel_ends(std::int64_t count,
                                       std::int64_t elem_bytes,
                                       std::int32_t n_channels,
                                       std::int64_t traffic);

/// Elements of a chunk in a ring's next loop, when `n_left` elements of the channel are left.
///
/// Source: NCCL device/all_reduce.h, runRing, protocol Simple.
std::int64_t nccl_loop_chunk(std::int64_t n_left, std::int64_t elem_bytes, std::int64_t n_ranks);

/// One of NCCL's two trees, by rank.
struct Tree {
  std::int32_t root = 0;
  std::vector<std::vector<std::int32_t>> children;
};

/// Requires: n_ranks >= 1.
/// Source: NCCL graph/trees.cc: the second tree is the first one shifted by a rank when n_ranks is
///     odd, mirrored when it is even.
Tree make_nccl_tree(std::int32_t n_ranks, bool second);

}  // namespace lockstep::detail
