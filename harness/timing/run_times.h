// Where a run's time went, as numbers for people and programs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/enum_names.h"
#include "lockstep/harness/timing/call_times.h"
#include "lockstep/harness/timing/rank_steps.h"
#include "lockstep/harness/timing/step_calls.h"

namespace lockstep {

class JsonText;

/// What the times of a trace count.
enum class RunClock : std::uint8_t {
  kVirtual,   ///< The simulator's: exact, and only what the scenario says takes time.
  kShared,    ///< One clock of one machine.
  kSeparate,  ///< Each rank its own: only what one rank saw can be said.
};
template <>
inline constexpr EnumNames<3> kEnumNames<RunClock> = {"virtual", "shared", "separate"};

/// Of many durations, in nanoseconds. Of an even number the median is the lower of the two.
struct DurationSpread {
  std::int64_t least = 0;
  std::int64_t median = 0;
  std::int64_t most = 0;
};

/// Requires: not empty.
DurationSpread spread_of(std::vector<std::int64_t> durations);

/// All calls of one operation, type, size and number of ranks.
struct CallTimes {
  CollectiveOp op = CollectiveOp::kBarrier;
  DType dtype = DType::kF32;
  std::int64_t n_bytes = 0;
  std::int32_t n_ranks = 0;
  std::int64_t n_calls = 0;
  DurationSpread took;        ///< From the last member's arrival.
  DurationSpread waited;      ///< From the first member's arrival to the last one's.
  double alg_gb_per_s = 0.0;  ///< n_bytes over the median of `took`; 0 where that is 0.
  double bus_gb_per_s = 0.0;  ///< The same times bus_factor().
};

/// Of all steps of all ranks.
struct RunTimes {
  RunClock clock = RunClock::kVirtual;
  std::int32_t n_ranks = 0;
  std::int64_t n_steps = 0;  ///< Steps times ranks.
  DurationSpread step;
  DurationSpread compute;        ///< Of a step, what was not exposed.
  DurationSpread forward;        ///< Of a step, StepTimes::forward_ns.
  DurationSpread communication;  ///< Of a step, the time in which a call of the rank was under way.
  DurationSpread exposed;        ///< Of a step, the time in which the rank waited for calls.
  std::int64_t n_own_async = 0;  ///< StepTimes::n_own_async, of all steps.
  std::vector<CallTimes> calls;  ///< Most time in total first. Empty with separate clocks.
  std::vector<StepCalls> step_calls;  ///< Most steps first. Empty with separate clocks.
  std::optional<LateRanks> late;
  std::string late_node;  ///< Where these are all ranks of one node: its name.

  /// The part of communication that was hidden by computing, 0 to 1: of the two medians.
  /// A median step is one after the first, in which a wrapper reduces everything at once.
  double hidden = 0.0;
};

/// Absent: the trace has no times (an untimed simulation), or no step.
/// Deterministic: a function of the events alone.
std::optional<RunTimes> run_times(const MemoryTrace& trace, RunClock clock);

/// "4.296 us", "712 ns", "1.5 s": four significant digits at most.
std::string duration_text(std::int64_t ns);

/// Lines for a terminal, each with its newline.
std::string times_text(const RunTimes& times);

/// One object (docs/report_format.md, "times").
void write_times(JsonText& out, const RunTimes& times);

}  // namespace lockstep
