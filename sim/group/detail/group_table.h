// Which groups there are, and how their members come by the same one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/sim/group/detail/matching.h"

namespace lockstep::sim {

/// Ids follow from who split or opened which group how often, never from the schedule.
class GroupTable {
 public:
  explicit GroupTable(World& world) : world_(&world) {}

  /// Group 0.
  GroupState& world_group();
  /// The k-th split of `parent`. Ranks that list different members get different groups of the same id, as
  /// they would from PyTorch's new_group: whether a member waits in vain shows when it calls something
  /// in it, and what the ranks disagree about is in the trace.
  GroupState& split(const GroupState& parent, std::int64_t k, std::vector<std::int32_t> members);
  /// The group that `rank` opens by name (named_groups.cc). See SimGroups::open.
  Result<GroupState*> open(Rank rank, std::string_view name, std::span<const std::int32_t> members);

  /// By key.
  const std::map<std::int32_t, std::unique_ptr<GroupState>>& all() const { return groups_; }

 private:
  std::int32_t free_id(std::string_view name, std::int64_t instance) const;
  /// One that no group has, from this digest on.
  std::int32_t free_key(std::uint64_t digest) const;

  World* world_;
  std::map<std::int32_t, std::unique_ptr<GroupState>> groups_;
  std::map<std::int32_t, std::vector<GroupState*>> disputed_;  // By id: all lists but the first.
  std::map<std::pair<std::string, std::int64_t>, std::vector<GroupState*>> named_;  // By opening.
  std::map<std::pair<std::string, Rank>, std::int64_t> n_openings_;
};

}  // namespace lockstep::sim
