// One operation on its way through the group's thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "lockstep/dist/comm_status.h"

namespace lockstep::peers {

/// How an operation ended, and Gloo's words when it failed.
struct Ending {
  CommStatus status = CommStatus::kOk;
  std::string detail;
  std::int32_t peer = -1;  ///< Of a recv from anybody: who sent.
};

/// Shared between the rank's thread, which waits, and the thread that does the work.
class Task {
 public:
  explicit Task(std::function<Ending()> work) : work_(std::move(work)) {}

  /// Does the work, once, and wakes who waits. Requires: called by one thread.
  void run() { finish(work_()); }

  /// Ends it without doing it.
  void finish(Ending ending) {
    const std::lock_guard lock(mutex_);
    ending_ = std::move(ending);
    done_ = true;
    changed_.notify_all();
  }

  bool is_done() {
    const std::lock_guard lock(mutex_);
    return done_;
  }

  const Ending& wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_; });
    return ending_;
  }

 private:
  std::function<Ending()> work_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  Ending ending_;
};

}  // namespace lockstep::peers
