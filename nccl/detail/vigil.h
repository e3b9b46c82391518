// Waiting that ends: what happens meanwhile to peers and to the clock.
#pragma once

#include <chrono>
#include <string>

#include "lockstep/peers/noticeboard.h"

namespace lockstep::nccl {

/// NCCL itself waits for ever. Whoever waits for it asks a vigil in every turn of the loop.
class Vigil {
 public:
  /// Requires: `watch` outlives it.
  Vigil(peers::Watch& watch, std::chrono::milliseconds timeout)
      : watch_(&watch), timeout_(timeout), deadline_(std::chrono::steady_clock::now() + timeout) {}

  /// Pauses. Returns: kOk to go on, or why waiting is over.
  peers::Ending pause() {
    if (peers::Ending trouble = watch_->trouble(); trouble.status != CommStatus::kOk) {
      return trouble;
    }
    if (std::chrono::steady_clock::now() >= deadline_) {
      return {CommStatus::kTimedOut,
              "NCCL was not done within " + std::to_string(timeout_.count()) + " ms"};
    }
    patience_.pause();
    return {};
  }

 private:
  peers::Watch* watch_;
  std::chrono::milliseconds timeout_;
  std::chrono::steady_clock::time_point deadline_;
  peers::Patience patience_;
};

inline bool is_ok(const peers::Ending& ending) { return ending.status == CommStatus::kOk; }

}  // namespace lockstep::nccl
