// A session from one call to the next.
#pragma once

#include <memory>
#include <utility>

#include "lockstep/sim/session/session.h"

namespace lockstep::sim {

/// Lends a session whose stacks and pools are those of the call before.
///
/// One that a call left by an exception is thrown away: Lockstep itself may have failed in it, and what it left there
/// proves nothing.
///
///     WarmSession warm;
///     const auto result = warm.lend([&](Session& session) { return run_scenario(scenario, {.session = &session}); });
///
/// Requires: one thread at a time, that of the first call.
class WarmSession {
 public:
  /// Returns what `call` returns of a session that it has alone.
  template <typename Call>
  auto lend(Call call) {
    std::unique_ptr<Session> session = std::move(warm_);
    if (session == nullptr) session = std::make_unique<Session>();
    auto result = call(*session);
    warm_ = std::move(session);
    return result;
  }

 private:
  std::unique_ptr<Session> warm_;  // Empty while a call has it.
};

}  // namespace lockstep::sim
