// Faults injected into contributions on their way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "lockstep/sim/group/detail/matching.h"
#include "lockstep/sim/group/sim_group.h"

namespace lockstep::sim {

class ContributionFaults {
 public:
  explicit ContributionFaults(GroupRegistry& registry) : registry_(&registry) {}

  /// See SimGroups::plan and SimGroups::remember.
  void plan(const ContributionFault& fault);
  void remember(Rank rank);

  /// Whether there is anything to apply: asked at each call.
  bool any() const { return any_; }

  /// What was planned for this contribution happens to it. True: it does not arrive now.
  bool apply(SimWork& work);
  /// The calls whose contributions were lost fail with the others'.
  void fail_lost(const MatchSlot& slot);

  /// Pending works whose contributions never arrive.
  const std::vector<SimWork*>& lost() const { return lost_; }

  void forget_delay(const SimWork& work) { delayed_.erase(work.delay); }

  void forget_lost(SimWork& work) { std::erase(lost_, &work); }

 private:
  using Kind = std::tuple<Rank, std::int32_t, CollectiveOp, std::int64_t, DType>;

  static Kind kind_of(const SimWork& work);
  bool apply(const ContributionFault& fault, SimWork& work);
  void delay(SimWork& work, Duration span);
  void replace(const ContributionFault& fault, SimWork& work);

  GroupRegistry* registry_;
  bool any_ = false;
  std::vector<ContributionFault> planned_;
  std::vector<SimWork*> lost_;
  std::map<std::uint64_t, SimWork*> delayed_;
  std::uint64_t n_delayed_ = 0;
  std::vector<Rank> remembered_;  // Whose contributions are kept, and the last of each kind.
  std::map<Kind, std::vector<std::byte>> contributions_;
};

}  // namespace lockstep::sim
