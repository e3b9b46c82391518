// A process that looks after what a launcher leaves when it is killed.
#pragma once

#include <memory>
#include <string>
#include <sys/types.h>

#include "lockstep/base/error.h"

namespace lockstep::launch {

/// While this process lives, the keeper only does what it is asked to. When it dies in any way, SIGKILL
/// included, the keeper kills the process groups it was given and removes the folders it made. It
/// belongs to a session of its own, so that what is sent to this process's group does not reach it.
///
/// The signal that a dying launcher's ranks receive from the kernel reaches only these themselves;
/// the keeper reaches what they started, too.
class Keeper {
 public:
  /// Requires: one thread. Errors: no process can be started.
  static Result<std::unique_ptr<Keeper>> start();
  /// Ends the keeper, which touches nothing then.
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;
  Keeper(Keeper&&) = delete;
  Keeper& operator=(Keeper&&) = delete;

  /// Has the keeper make a folder whose path begins with `start`: there is no moment at which it is
  /// there and the keeper does not know it.
  /// Errors: the folder cannot be made.
  Result<std::string> make_folder(const std::string& start) const;

  /// Where a new process says, before it executes its program, that it leads a group: announce().
  int handle() const { return socket_; }

  /// Adds the calling process's group to those of the keeper at the end of `handle`. Callable
  /// between fork and exec.
  static void announce(int handle);
  /// The group is gone, and its number may be another's soon.
  void forget(pid_t group) const;

 private:
  Keeper(pid_t pid, int socket) : pid_(pid), socket_(socket) {}

  pid_t pid_;
  int socket_;
};

/// The path of `name` under TMPDIR, or /tmp.
std::string below_tmpdir(const std::string& name);

/// A folder that is gone when this is, or when this process is killed.
class KeptFolder {
 public:
  /// Its path begins with `start`. It must go before the keeper does.
  /// Errors: as Keeper::make_folder().
  static Result<std::unique_ptr<KeptFolder>> make(const Keeper& keeper, const std::string& start);
  ~KeptFolder();
  KeptFolder(const KeptFolder&) = delete;
  KeptFolder& operator=(const KeptFolder&) = delete;
  KeptFolder(KeptFolder&&) = delete;
  KeptFolder& operator=(KeptFolder&&) = delete;

  const std::string& path() const { return path_; }

 private:
  explicit KeptFolder(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

}  // namespace lockstep::launch
