// What NCCL says in its log about how it adds: rings, trees, and which of them a collective took.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/reduction_order.h"

namespace lockstep {

/// How NCCL ran collectives of one size.
struct NcclChoice {
  std::string function;  ///< "AllReduce", "ReduceScatter", ...
  std::int64_t bytes = 0;
  std::string algorithm;  ///< "RING", "TREE", "NVLS", ...
  std::string protocol;   ///< "SIMPLE", "LL", "LL128"
  std::int32_t first_channel = 0;
  std::int32_t last_channel = 0;

  friend bool operator==(const NcclChoice&, const NcclChoice&) = default;
};

/// One rank's place in the tree of one channel.
struct NcclTreePlace {
  std::int32_t channel = 0;
  std::int32_t rank = 0;
  std::int32_t parent = -1;  ///< -1: it is the root.
  std::array<std::int32_t, 3> children{
      -1, -1, -1};  ///< In the order in which their sums are added.
};

struct NcclLog {
  std::string version;  ///< "2.28.9+cuda13.0", or empty.
  std::vector<std::vector<std::int32_t>>
      rings;                         ///< By channel: ranks in the order of sending, from 0.
  std::vector<NcclTreePlace> trees;  ///< Of all ranks whose logs were read.
  std::vector<NcclChoice> choices;   ///< As they first appear, each once.
};

struct NcclLogFile {
  std::string path;  ///< For errors.
  std::string text;
};

/// Reads the log of rank 0 (NCCL_DEBUG=INFO; NCCL_DEBUG_SUBSYS with INIT and TUNING), or those of
/// several ranks. Other lines are skipped.
///
/// Errors: no ring; a ring that is not a permutation; missing channels; two communicators
///     with different rings (use one log per communicator).
/// Source: NCCL 2.28.9, graph/rings.cc, init.cc, enqueue.cc.
Result<NcclLog> read_nccl_log(std::span<const NcclLogFile> files);

/// The order in which simulated ranks must add to have the same bits.
///
/// Errors: says why there is none: a function that adds nothing, an algorithm or protocol that is
///     not modelled, trees of a different shape from those of one rank per node.
Result<ReductionOrder> order_of(const NcclLog& log, const NcclChoice& choice);

}  // namespace lockstep
