// Where two runs, or the ranks of one run, begin to differ, and what was still equal before.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/types.h"
#include "lockstep/trace/memory_trace.h"

namespace lockstep {

/// The first entry that is not the same on both sides. An entry is an event without its digests, or
/// one tensor's digest in it.
struct FirstDifference {
  std::vector<Rank> ranks = {};  ///< Two runs: the rank. Ranks: the minority (a tie: as in laws).
  Position at = {};              ///< Where; `opt` and `epoch` as the first side that has it says.
  std::string event = {};        ///< "grad.post", "param.step", "collective.posted", "step", ...
  std::string tensor = {};       ///< Empty: the event itself differs, or is not there.
  std::string instead = {};      ///< Another kind of event that most, or the second run, have here.
  std::string only_on = {};      ///< Not empty: which side alone has an entry here.
  std::string before = {};       ///< The last thing in that step that is equal, or empty.
  std::int64_t n_equal = 0;      ///< Entries of that step that are equal.
  bool first_step = false;       ///< Nothing lies before that step.
};

/// What a search found, and at which cost.
struct Bisection {
  std::optional<FirstDifference> first;
  std::int64_t n_comparisons = 0;      ///< Of two digests.
  std::int64_t n_steps = 0;            ///< Steps: stretches between two synchronising forwards.
  std::int64_t n_entries = 0;          ///< Of the side that has most.
  std::int64_t n_entries_in_step = 0;  ///< In the step that differs, on the side that has most.
};

/// Compares what every rank of two runs did: every event with every digest, in each rank's own
/// order; not times, call sites, machines, logs, faults, recorded values, nor when a collective was
/// completed, which a schedule decides.
///
/// With S steps of at most L entries, all ranks together, it makes at most
/// ceil(log2(S + 1)) + ceil(log2(L)) comparisons.
Bisection bisect_runs(const MemoryTrace& left, const MemoryTrace& right);

/// Compares what the ranks of one run share: wrappers, training forwards, reduced and used
/// gradients, steps, parameters, and buffers and optimizer state where all ranks are to have the
/// same. Names that a wrapper ignores are left out.
///
/// With N ranks it makes at most N - 1 times as many comparisons.
Bisection bisect_ranks(const MemoryTrace& trace);

/// "first difference: step 3 (sync 3), rank 1, grad.post of `fc.weight`", then what was equal, then
/// the comparisons; lines end with "\n". `what` names the sides where there is no difference.
std::string bisection_text(const Bisection& bisection, const std::string& what);

/// The first line of it without its number of comparisons, for a report; empty when nothing
/// differs.
std::string divergence_line(const Bisection& bisection);
/// The same as an answer for finish_report, found when it is asked. Null: no answer.
/// Requires: `trace` lives until then.
std::function<std::string()> first_divergence_of(const MemoryTrace* trace);

}  // namespace lockstep
