// The groups that one rank's process has opened.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/comm/rank_context.h"
#include "lockstep/sim/process/detail/rank_store.h"

namespace lockstep::sim {

/// Groups by the handles that the process calls them by: 0, 1, 2, ... in the order of their opening.
///
/// Requires: everything given outlives it.
class RankGroups {
 public:
  RankGroups(Serving& serving, RankContext& context, RankProcess& process);

  /// Answers with the handle. The first group of all ranks is the world.
  /// Errors: Nonsense; ContractViolation for a name that is not defined.
  Answer open(const Request& request);
  /// Of a handle that is open; any other is left alone.
  /// Errors: Nonsense.
  void close(const Request& request);
  /// Errors: ContractViolation where no group is open under this handle.
  ProcessGroup& at(std::int32_t group) const;

 private:
  Serving& serving_;
  RankContext& context_;
  RankProcess& process_;
  std::vector<std::unique_ptr<ProcessGroup>> own_;
  std::vector<ProcessGroup*> open_;  // By handle; null: closed.
};

}  // namespace lockstep::sim
