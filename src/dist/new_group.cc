#include "lockstep/dist/new_group.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "lockstep/base/check.h"

namespace lockstep {

std::unique_ptr<ProcessGroup> new_group(ProcessGroup& world,
                                        std::span<const std::int32_t> ranks,
                                        GroupNumbering numbering,
                                        CallSite site) {
  std::vector<std::int32_t> sorted(ranks.begin(), ranks.end());
  std::sort(sorted.begin(), sorted.end());
  LOCKSTEP_CHECK(!sorted.empty(), "a new group has at least one rank");
  LOCKSTEP_CHECK(sorted.front() >= 0 && sorted.back() < world.size(),
                 "the new group's ranks are ranks of the world of " + std::to_string(world.size()));
  LOCKSTEP_CHECK(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(),
                 "a new group lists a rank once");
  if (numbering == GroupNumbering::kSorted) return world.split(sorted, site);
  return world.split(ranks, site);
}

std::unique_ptr<ProcessGroup> new_subgroups(ProcessGroup& world,
                                            std::int32_t group_size,
                                            CallSite site) {
  LOCKSTEP_CHECK(group_size > 0, "The arg 'group_size' must be positive");
  LOCKSTEP_CHECK(group_size <= world.size(), "The arg 'group_size' must not exceed the world size");
  LOCKSTEP_CHECK(world.size() % group_size == 0,
                 "The world size must be divisible by 'group_size'");
  std::unique_ptr<ProcessGroup> mine;
  std::vector<std::int32_t> ranks(static_cast<std::size_t>(group_size));
  for (std::int32_t first = 0; first < world.size(); first += group_size) {
    std::iota(ranks.begin(), ranks.end(), first);
    std::unique_ptr<ProcessGroup> group = world.split(ranks, site);
    if (group != nullptr) mine = std::move(group);
  }
  return mine;
}

std::int32_t group_rank_of(const ProcessGroup& group, Rank world_rank) {
  for (std::int32_t r = 0; r < group.size(); ++r) {
    if (group.world_rank(r) == world_rank) return r;
  }
  const std::string text = "Global rank " + std::to_string(to_int(world_rank)) +
                           " is not part of group " + std::to_string(group.id());
  fail_check("a member of the group", __FILE__, __LINE__, text);
}

}  // namespace lockstep
