// One operation on its way through the group's thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "lockstep/comm/comm_status.h"

namespace lockstep::peers {

/// How an operation ended, and Gloo's words when it failed.
struct Completion {
  CommStatus status = CommStatus::kOk;
  std::string detail;
  std::int32_t peer = -1;  ///< Of a recv from any source: the sender.
};

/// Shared between the rank's thread, which waits, and the thread that does the work.
class Task {
 public:
  explicit Task(std::function<Completion()> work) : work_(std::move(work)) {}

  /// Does the work, once, and wakes the waiters. Requires: called by one thread.
  void run() { finish(work_()); }

  /// Ends it without doing it.
  void finish(Completion completion) {
    const std::lock_guard lock(mutex_);
    completion_ = std::move(completion);
    done_ = true;
    changed_.notify_all();
  }

  bool is_done() {
    const std::lock_guard lock(mutex_);
    return done_;
  }

  const Completion& wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_; });
    return completion_;
  }

 private:
  std::function<Completion()> work_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  Completion completion_;
};

}  // namespace lockstep::peers
