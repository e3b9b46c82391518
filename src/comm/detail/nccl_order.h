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
/// Units: traffic = how often NCCL counts a byte: 2 for an all-reduce, N for a reduce_scatter, four
///     times that where it uses LL.
/// Source: NCCL enqueue.cc, scheduleCollTasksToPlan.
std::vector<std::int64_t> channel_ends(std::int64_t count,
                                       std::int64_t elem_bytes,
                                       std::int32_t n_channels,
                                       std::int64_t traffic);

/// Elements of a chunk in a ring's next loop, when `n_left` elements of the channel are left.
///
/// Source: NCCL device/all_reduce.h, runRing; enqueue.cc, calcCollChunking.
std::int64_t nccl_loop_chunk(std::int64_t n_left,
                             std::int64_t elem_bytes,
                             std::int64_t n_ranks,
                             NcclProtocol protocol);

/// What channel_ends takes as traffic where NCCL counts a byte `times` times.
inline std::int64_t traffic_of(std::int64_t times, NcclProtocol protocol) {
  return protocol == NcclProtocol::kLl ? 4 * times : times;  // LL sends flags, in small steps.
}

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
