// How long an operation takes when it runs alone: the alpha-beta formulas.
#pragma once

#include <cstdint>
#include <span>

#include "lockstep/base/types.h"
#include "lockstep/comm/reduction_order.h"
#include "lockstep/sim/net/net_options.h"
#include "lockstep/trace/event.h"

namespace lockstep::sim {

/// What an operation's time depends on.
struct OperationSize {
  CollectiveOp op = CollectiveOp::kBarrier;
  std::int64_t n_bytes = 0;  ///< all_reduce, broadcast, reduce: of the buffer; others: the most
                             ///< that one rank sends or receives of its own, all parts together.
  std::int32_t n_ranks = 1;
};

/// The time of one operation on idle links, from the arrival of its last member.
///
/// With alpha = latency, B = bandwidth of the slowest link the members use, S = n_bytes, n ranks,
/// k = ceil(log2 n):
///
///   all_reduce   rank, gloo-ring, nccl-ring: 2 (n-1) (alpha + S / (n B))
///                pairwise (halving and doubling): 2 k alpha + 2 (n-1)/n S / B
///                nccl-tree: 2 (k alpha + (2k-1) S / B), with chunks of c bytes
///                2 (k alpha + (2k-1) c / B) + 3 (S-c) / B
///   all_gather   (n-1) alpha + (n-1)/n S / B; so reduce_scatter, but pairwise: k alpha
///   broadcast    k (alpha + S / B); NCCL's orders (n-1) (alpha + c / B) + (S-c) / B; so reduce
///   gather, scatter, all_to_all: alpha + (n-1)/n S / B; barrier: k alpha
///
/// `members` are world ranks. Jitter is left out.
Duration time_of(const OperationSize& size,
                 std::span<const std::int32_t> members,
                 const ReductionOrder& order,
                 const NetOptions& net);

}  // namespace lockstep::sim
