// A process that looks after what a launcher leaves when it is killed.
#pragma once

#include <memory>
#include <string>
#include <sys/types.h>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::launch {

/// While this process lives, the keeper only listens. When it dies in any way, SIGKILL included,
/// the keeper kills the process groups it was given and removes the folders. It belongs to a session
/// of its own, so that what is sent to this process's group does not reach it.
///
/// The signal that a dying launcher's ranks receive from the kernel reaches only these themselves;
/// the keeper reaches what they started, too.
class Keeper {
 public:
  /// Requires: one thread. Errors: no process can be started.
  static Result<std::unique_ptr<Keeper>> start(const std::vector<std::string>& folders);
  /// Ends the keeper, which touches nothing then.
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;
  Keeper(Keeper&&) = delete;
  Keeper& operator=(Keeper&&) = delete;

  /// Where a new process says, before it executes its program, that it leads a group: announce().
  int handle() const { return pipe_; }

  /// Adds the calling process's group to those of the keeper at the end of `handle`. Callable
  /// between fork and exec.
  static void announce(int handle);
  /// The group is gone, and its number may be another's soon.
  void forget(pid_t group) const;

 private:
  Keeper(pid_t pid, int pipe) : pid_(pid), pipe_(pipe) {}

  pid_t pid_;
  int pipe_;
};

}  // namespace lockstep::launch
