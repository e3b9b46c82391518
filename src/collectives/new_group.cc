#include "lockstep/collectives/new_group.h"

#include <algorithm>
#include <fmt/core.h>
#include <numeric>
#include <string>
#include <vector>

#include "lockstep/base/check.h"
#include "lockstep/base/text.h"

namespace lockstep {

std::unique_ptr<ProcessGroup> new_group(ProcessGroup& world,
                                        std::span<const std::int32_t> ranks,
                                        GroupNumbering numbering,
                                        CallSite site) {
  std::vector<std::int32_t> sorted(ranks.begin(), ranks.end());
  std::sort(sorted.begin(), sorted.end());
  LOCKSTEP_CHECK(!sorted.empty(),
                 fmt::format("new_group got no ranks of the world of {}: a group has at least one",
                             world.size()));
  LOCKSTEP_CHECK(
      sorted.front() >= 0 && sorted.back() < world.size(),
      fmt::format("new_group got ranks {}: the world has {}", join(ranks), world.size()));
  LOCKSTEP_CHECK(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(),
                 fmt::format("new_group got ranks {}: a group lists a rank once", join(ranks)));
  if (numbering == GroupNumbering::kSorted) return world.split(sorted, site);
  return world.split(ranks, site);
}

std::unique_ptr<ProcessGroup> new_subgroups(ProcessGroup& world,
                                            std::int32_t group_size,
                                            CallSite site) {
  LOCKSTEP_CHECK(group_size > 0,
                 fmt::format("The arg 'group_size' must be positive, not {}", group_size));
  LOCKSTEP_CHECK(group_size <= world.size(),
                 fmt::format("The arg 'group_size' must not exceed the world size: {} of {}",
                             group_size,
                             world.size()));
  LOCKSTEP_CHECK(
      world.size() % group_size == 0,
      fmt::format(
          "The world size must be divisible by 'group_size': {} by {}", world.size(), group_size));
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
