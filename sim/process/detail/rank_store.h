// What one rank asks of the store that all ranks share.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lockstep/sim/fiber/world.h"
#include "lockstep/sim/process/rank_process.h"

namespace lockstep::sim {

class Serving;  // serving.h

/// What a request is answered with.
struct Answer {
  ValueStatus status = ValueStatus::kOk;
  std::string body = {};
};

/// One rank's requests to the store, on its fiber, one after another.
///
/// Requires: everything given outlives it.
class RankStore {
 public:
  RankStore(Serving& serving, RankHandle& handle, RankProcess& process);
  ~RankStore();
  RankStore(const RankStore&) = delete;
  RankStore& operator=(const RankStore&) = delete;
  RankStore(RankStore&&) = delete;
  RankStore& operator=(RankStore&&) = delete;

  /// Returns once the answer is known: a get or a wait blocks the rank until the keys are there.
  /// Errors: Nonsense.
  Answer ask(const Request& request);

 private:
  Answer await_keys(const Request& request, const StoreRequest& asked);
  Answer answer(const StoreRequest& asked);

  Serving& serving_;
  RankHandle& handle_;
  RankProcess& process_;
  std::int64_t n_waits_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // For timers that come too late.
};

}  // namespace lockstep::sim
