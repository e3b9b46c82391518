// The same job on two backends, compared event by event.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/trace/memory_trace.h"

namespace lockstep {

/// Where two runs of one job part.
struct Divergence {
  Position at;
  Rank rank{};
  std::string event;   ///< "grad inc", "param step", "collective completed", ...
  std::string tensor;  ///< The first one that differs, or empty.
  std::string left;    ///< The events as lines of a trace; empty: there is none.
  std::string right;
};

struct Comparison {
  std::int64_t n_events = 0;  ///< Of the left run, values, faults and logs left out.
  std::optional<Divergence> first;
};

/// Compares what each rank did.
///
/// Everything a rank's program did must be the same in the same order, digests included, bit for
/// bit. Left out: times, call sites, recorded values (their digests are compared), faults and logs;
/// and when a collective completed between a rank's own events, though each must complete the same.
///
/// Returns: the first difference by (attempt, sync, optimizer step), of the lowest rank.
Comparison compare_runs(const MemoryTrace& left, const MemoryTrace& right);

/// "sync 3, step 2, grad inc, tensor `fc2.weight`, rank 1" and both events below.
std::string render(const Divergence& divergence, const std::string& left, const std::string& right);

}  // namespace lockstep
