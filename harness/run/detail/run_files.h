// What a run of run_ranks leaves on the disk.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/laws/wait_for.h"
#include "lockstep/run.h"
#include "lockstep/trace/memory_trace.h"

namespace lockstep::detail {

/// Where the files of one run go. "%n" in a name stands for the first number from 1 on that makes
/// it new.
struct RunFiles {
  std::string trace;   ///< A folder, or empty: none.
  std::string report;  ///< A file, or empty: none.

  bool any() const { return !trace.empty() || !report.empty(); }
};

/// The value of a variable, or nothing (process_environment()).
using Environment = std::function<std::optional<std::string>(std::string_view)>;

/// What the options ask for, and where they are silent the environment: LOCKSTEP_TRACE and
/// LOCKSTEP_REPORT.
/// Errors: std::invalid_argument for a report of an unknown kind.
RunFiles run_files(const RunOptions& options, const Environment& environment);

/// A finished run, as far as files show it.
struct FinishedRun {
  const Report& report;
  const MemoryTrace& trace;
  const sim::WaitForGraph* wait_for = nullptr;
  std::string backend = "sim";
};

/// Writes the report. Errors: std::runtime_error where a file cannot be written.
void write_report(const RunFiles& files, const FinishedRun& run);
/// Writes the trace, for `lockstep check`, `bisect`, `diff` and `export`.
void write_trace(const RunFiles& files, const RunOptions& options, const FinishedRun& run);

}  // namespace lockstep::detail
