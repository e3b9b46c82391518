// Waiting that ends: what happens meanwhile to peers and to the clock.
#pragma once

#include <chrono>
#include <string>

#include "lockstep/real/group/file_store.h"

namespace lockstep::nccl {

/// NCCL itself waits forever. A loop that waits for it asks a deadline in every iteration.
class Deadline {
 public:
  /// Requires: `watch` outlives it.
  Deadline(peers::PeerMonitor& monitor, std::chrono::milliseconds timeout)
      : monitor_(&monitor),
        timeout_(timeout),
        deadline_(std::chrono::steady_clock::now() + timeout) {}

  /// Pauses. Returns: kOk to continue, or why waiting is over.
  peers::Completion pause() {
    if (peers::Completion failure = monitor_->failure(); failure.status != CommStatus::kOk) {
      return failure;
    }
    if (std::chrono::steady_clock::now() >= deadline_) {
      return {CommStatus::kTimedOut,
              "NCCL was not done within " + std::to_string(timeout_.count()) + " ms"};
    }
    backoff_.pause();
    return {};
  }

 private:
  peers::PeerMonitor* monitor_;
  std::chrono::milliseconds timeout_;
  std::chrono::steady_clock::time_point deadline_;
  peers::Backoff backoff_;
};

inline bool is_ok(const peers::Completion& completion) {
  return completion.status == CommStatus::kOk;
}

}  // namespace lockstep::nccl
