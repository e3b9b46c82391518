// Starts ranks as processes and supervises them, as torchrun does.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/real/launch/failure_report.h"
#include "lockstep/real/launch/keeper.h"
#include "lockstep/real/launch/launch_options.h"

namespace lockstep::launch {

struct LaunchResult {
  bool ok = false;  ///< Every rank of the last attempt ended with 0.
  std::int32_t attempts = 0;
  int signal = 0;                       ///< The signal that asked this process to stop, 0 = none.
  std::vector<WorkerFailure> failures;  ///< Of the last attempt, in the order they were seen.
  std::string elsewhere;                ///< Why it failed, where no rank of this machine did.
};

/// Runs `options.command` once per local rank and waits for all. With several machines, one
/// call on each: they connect first, and do everything together (node_group.h).
///
/// A rank that fails ends the others (SIGTERM, then SIGKILL after the grace), on all machines, and,
/// while restarts are left, all are started again. SIGINT, SIGTERM, SIGHUP and SIGQUIT are passed
/// on to the ranks, which then have the grace to end. Ranks never outlive this call, nor, as `keeper`
/// sees to it, this process.
///
/// Requires: one thread; complaint(options) is empty.
/// Returns: how they ended; lines go to `out` and `err` with the rank in front.
/// Errors: the port is in use, the program cannot be run, folders cannot be made; this machine does
///     not belong to the job.
Result<LaunchResult> launch(LaunchOptions options,
                            const Keeper& keeper,
                            std::ostream& out,
                            std::ostream& err);

}  // namespace lockstep::launch
