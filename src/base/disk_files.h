// Files on the real disk, through the library's file interface.
#pragma once

#include <csignal>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/host.h"

namespace lockstep {

/// The bytes of the file at `path`.
/// Errors: "cannot read this file" with the system's reason; a folder. The place is `path`.
Result<std::string> read_file(const std::string& path);

class DiskFiles final : public FileSystem {
 public:
  /// The temporary name is new each time ("model.bin.part-" and 12 hex digits), never that of
  /// another's file or link. A link stays a link, and what it leads to is published. What is not a
  /// regular file (a device, a pipe) is written to as it is.
  Outcome publish(std::string_view path, std::string_view bytes) override;
  Result<std::string> read(std::string_view path) override;
  Outcome write(std::string_view path, std::string_view bytes) override;
  Outcome sync(std::string_view path) override;
  Outcome rename(std::string_view from, std::string_view to) override;
  Outcome remove(std::string_view path) override;
  Result<std::vector<std::string>> list(std::string_view folder) override;
  Outcome make_folder(std::string_view folder) override;
};

/// Holds back the signals by which a user ends a process (INT, TERM, HUP) as long as it lives: no temporary file is left
/// behind, and of several files that belong together all are there or none. What came meanwhile takes effect at its end.
/// Holds them back from this thread: one that starts others must not have them write.
class HeldSignals {
 public:
  HeldSignals() {
    sigset_t ends{};
    sigemptyset(&ends);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&ends, signal);
    pthread_sigmask(SIG_BLOCK, &ends, &before_);
  }

  ~HeldSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;
  HeldSignals(HeldSignals&&) = delete;
  HeldSignals& operator=(HeldSignals&&) = delete;

 private:
  sigset_t before_{};
};

/// Files that are published together: the bytes of all are safe on the disk, under names of their
/// own, before the first takes its place. Whatever was not committed is removed again.
class StagedFiles {
 public:
  StagedFiles() = default;
  ~StagedFiles();
  StagedFiles(const StagedFiles&) = delete;
  StagedFiles& operator=(const StagedFiles&) = delete;
  StagedFiles(StagedFiles&&) = delete;
  StagedFiles& operator=(StagedFiles&&) = delete;

  /// Requires: `path` is that of a regular file, or of none.
  Outcome add(const std::string& path, std::string_view bytes);
  Outcome commit();

 private:
  struct Staged {
    std::string temporary;
    std::string path;
  };

  HeldSignals held_;  // Until temporary files have their names, or are gone.
  std::vector<Staged> staged_;
};

}  // namespace lockstep
