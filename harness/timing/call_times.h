// How long collectives took once their last member had come, how long they waited for it, and for whom.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/trace/memory_trace.h"

namespace lockstep {

/// One collective of one group, as all of its members saw it. Units: nanoseconds.
struct GroupCall {
  CollectiveOp op = CollectiveOp::kBarrier;
  DType dtype = DType::kF32;
  std::int64_t n_bytes = 0;     ///< As nccl-tests counts them: bytes_of().
  std::int32_t n_ranks = 0;     ///< Members.
  bool awaited = false;         ///< By the backward that posted it.
  std::int64_t arrived_ns = 0;  ///< When its last member called.
  std::int64_t waited_ns = 0;   ///< From the first member's call to the last one's.
  std::int64_t took_ns = 0;     ///< From the last member's call until the last one had its result.
  /// World ranks that came after the longest pause between two arrivals, if that sets a minority
  /// apart; ascending.
  std::vector<std::int32_t> late = {};
  std::int64_t late_ns = 0;  ///< That pause.
};

/// Every collective that all who posted it completed, messages left out, in the order of their last
/// arrivals.
///
/// Requires: times of all ranks on one clock. A group's members are the ranks that posted the call.
/// Deterministic: a function of the events alone.
std::vector<GroupCall> group_calls(const MemoryTrace& trace);

/// The bytes that nccl-tests calls the size of a call: of the whole buffer, where ranks have parts
/// of all parts together. `count` elements are the input of one rank.
/// Source: nccl-tests, doc/PERFORMANCE.md.
std::int64_t bytes_of(CollectiveOp op, DType dtype, std::int64_t count, std::int32_t n_ranks);

/// Bytes per nanosecond (GB/s) of a call times this is the traffic on each link: 2 (n-1)/n for an
/// all-reduce, (n-1)/n where each rank sends or keeps a part, 1 for broadcasts and reductions.
/// Source: nccl-tests, doc/PERFORMANCE.md.
double bus_factor(CollectiveOp op, std::int32_t n_ranks);

/// The same ranks, late time after time.
struct LateRanks {
  std::vector<std::int32_t> ranks;  ///< Ascending.
  std::int64_t n_calls = 0;         ///< Calls they were late for,
  std::int64_t of_calls = 0;        ///< of these in which a rank waited.
  std::int64_t behind_ns = 0;       ///< Median pause before the first of them came.
};

/// Names a set of ranks that came after the others in at least three quarters of the calls of the
/// world in which a rank waited. Absent: there is none, or fewer than two such calls.
std::optional<LateRanks> late_ranks(const std::vector<GroupCall>& calls, std::int32_t n_ranks);

}  // namespace lockstep
