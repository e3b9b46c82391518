// Scenarios on real processes: what `run --backend` and `crosscheck` share.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/harness/cli/commands.h"
#include "lockstep/harness/scenario/scenario.h"
#include "lockstep/real/host/launch_environment.h"

namespace lockstep::cli {

/// A run of a scenario as one process per rank.
struct RealRequest {
  std::string command;  ///< "run" or "crosscheck", for messages.
  std::string file;
  std::string variant;
  std::vector<std::string> settings;  ///< "key=value"
  std::string backend;
  std::int32_t timeout_s = 60;
  bool values = false;
  bool digests_only = false;  ///< No values for laws that need them.
  std::string trace;          ///< Folder for the ranks' traces, or empty.
  std::string flip_bit;
  bool check_arrivals = false;  ///< Compare what arrives with what was sent.
};

/// The exit code with which the command ends at once because `backend` cannot be had; nothing when
/// it can. Says why on stderr.
std::optional<ExitCode> refuse_backend(const std::string& command,
                                       const std::string& backend,
                                       Terminal& terminal);

/// The scenario of a request. `nproc` above 0 changes the number of ranks.
Result<Scenario> load_request(RealRequest& request, std::int32_t nproc);

/// Starts the processes and reads what they wrote. The exit code: some process died or could not
/// connect (stderr says which), kRunFailed. A run that a signal stopped has nothing to judge.
struct RealRun {
  std::optional<ExitCode> failed;
  std::optional<LoadedTrace> loaded;  ///< Also of a failed run, when anything can be read.
};

RealRun run_on_processes(const RealRequest& request, const Scenario& scenario, Terminal& terminal);

/// This process's place, if a launcher started it as one of several ranks: it is one of them, then,
/// and starts none.
/// Errors: variables that make no sense.
Result<std::optional<LaunchEnvironment>> place_among_ranks();

/// `run --backend` as one of these ranks. The trace of all is read on rank 0 once all have ended,
/// and `judge` returns the exit code; other ranks return kOk once they have ended.
ExitCode run_as_rank(const RealRequest& request,
                     const Scenario& scenario,
                     const LaunchEnvironment& place,
                     const std::function<ExitCode(const LoadedTrace&)>& judge,
                     Terminal& terminal);

}  // namespace lockstep::cli
