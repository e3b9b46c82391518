// What a completed collective does to the memory of its members.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "lockstep/comm/reduction_order.h"
#include "lockstep/sim/group/detail/sim_work.h"

namespace lockstep::sim {

/// Moves and reduces. Keeps its scratch lists, so that a warm transfer allocates nothing in rank
/// order.
class Transfer {
 public:
  explicit Transfer(ReductionOrder order) : order_(std::move(order)) {}

  /// Requires: one work per member, by group rank, with equal signatures.
  void run(std::span<SimWork* const> works);

  /// What real libraries do when an all_reduce is paired with a barrier or an all_reduce of another
  /// size: the reduction of the smallest count. A barrier takes part with one zero. Element type
  /// and operation are those of the lowest rank that is not in a barrier; broadcasts copy the
  /// smallest count.
  void run_garbage(std::span<SimWork* const> works);

  /// From a paired send into its recv, as much as fits both.
  static void deliver(const SimWork& send, const SimWork& recv);

 private:
  void all_reduce(std::span<SimWork* const> works);
  void reduce(std::span<SimWork* const> works);
  void reduce_scatter(std::span<SimWork* const> works);
  void reduce_lists(const SimWork& model, RankReduction job);

  ReductionOrder order_;
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
};

}  // namespace lockstep::sim
