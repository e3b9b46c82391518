// One launched process: a rank, in its own process group.
#pragma once

#include <array>
#include <csignal>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/real/launch/worker_environment.h"

namespace lockstep::launch {

struct WorkerSpec {
  std::vector<std::string> command;
  Variables variables;  ///< Over the launcher's own.
  /// Files of stdout and stderr instead of pipes; empty: a pipe.
  std::array<std::string, 2> files;
  sigset_t mask{};  ///< Signals blocked in the process.
  int keeper = -1;  ///< Keeper::handle(); -1: none.
};

/// How a process ended: exit code, or minus the number of the signal.
using ExitStatus = int;

class Worker {
 public:
  /// Starts the process. It leads a process group, reads nothing (/dev/null) and is killed when
  /// this process dies.
  /// Errors: the program cannot be run, in the system's words.
  static Result<Worker> start(const WorkerSpec& spec);

  pid_t pid() const { return pid_; }

  /// The reading ends of its stdout and stderr; -1 when there is none (any more).
  int pipe(std::int32_t stream) const { return pipes_[static_cast<std::size_t>(stream)]; }

  void close_pipe(std::int32_t stream);

  bool is_running() const { return !status_; }

  /// Looks whether it has ended, without waiting. What it started and left running is killed.
  void look();

  /// Requires: !is_running().
  ExitStatus status() const { return *status_; }

  /// Sends `signal` to it and all it started.
  void send(int signal) const;

 private:
  pid_t pid_ = -1;
  std::array<int, 2> pipes_ = {-1, -1};
  std::optional<ExitStatus> status_;
};

}  // namespace lockstep::launch
