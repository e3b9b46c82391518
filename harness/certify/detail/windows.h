// A recorded run as windows: the micro-steps between two optimizer steps, and what the step used.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/trace/memory_trace.h"

namespace lockstep {

namespace sim {
struct SessionResult;
}  // namespace sim

/// One forward and backward of one rank.
struct ProbedMicro {
  std::vector<std::int64_t> ids;  ///< Samples, as recorded.
  std::string site;               ///< Where its last reduction was posted, or empty.
};

/// One rank's part of a window.
struct RankWindow {
  std::int64_t epoch = 0;
  std::int64_t step = 0;  ///< Not stepped: the last one before it, -1 = none.
  bool stepped = false;
  std::vector<ProbedMicro> micros{};
  std::vector<double> used{};  ///< The gradient that the step consumed; empty = it had none.
};

/// A window ends with an optimizer step, with gradients that are cleared before one, or with the
/// rank's program.
///
/// Requires: a trace of samples, gradients' values and steps.
std::vector<RankWindow> windows_of(const MemoryTrace& trace, Rank rank);

/// The same of all ranks, by rank, in step: the n-th window of an epoch has the same place on every
/// rank. A rank whose inputs end earlier has empty windows for the rest of the epoch.
std::vector<std::vector<RankWindow>> windows_of(const MemoryTrace& trace, std::int32_t n_ranks);

/// Why not all of a run's windows are whole; empty: every rank finished its program.
std::string why_unfinished(const sim::SessionResult& run);

}  // namespace lockstep
