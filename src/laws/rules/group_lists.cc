#include "lockstep/laws/rules/detail/group_lists.h"

#include <algorithm>
#include <string>
#include <utility>

namespace lockstep::laws {

namespace {

/// Those whose list is the shortest argument: the fewest, of equally many the later ones.
std::vector<Rank> odd_ranks(const std::map<std::vector<std::int32_t>, std::vector<Rank>>& sides) {
  const auto odd = std::ranges::min_element(sides, [](const auto& a, const auto& b) {
    return std::pair(a.second.size(), -to_int(a.second.front())) <
           std::pair(b.second.size(), -to_int(b.second.front()));
  });
  return odd->second;
}

std::vector<Rank> as_ranks(const std::vector<std::int32_t>& members) {
  std::vector<Rank> ranks;
  ranks.reserve(members.size());
  for (const std::int32_t member : members) ranks.push_back(Rank{member});
  return ranks;
}

}  // namespace

void GroupLists::on_group(const Event& event, const GroupEvent& group) {
  const std::int32_t nth = n_made_[{event.at.attempt, event.rank, group.group}]++;
  Members members(group.members.begin(), group.members.end());
  lists_[{event.at.attempt, group.group, nth}][std::move(members)].push_back(event.rank);
}

std::vector<Finding> GroupLists::findings() const {
  std::vector<Finding> found;
  for (const auto& [key, lists] : lists_) {
    if (lists.size() < 2) continue;
    auto sides = lists;
    for (auto& [members, ranks] : sides) std::ranges::sort(ranks);
    Finding finding;
    finding.event = "group";
    finding.field = "members";
    finding.attempt = std::get<0>(key);
    finding.group = std::get<1>(key);
    finding.ranks = odd_ranks(sides);
    finding.cause = Cause::kSubgroupOnSomeRanks;
    finding.message = "all ranks must create the same groups, but ";
    const char* between = "";
    for (const auto& [members, ranks] : sides) {
      finding.message +=
          between + ranks_text(ranks) + " created one of " + ranks_text(as_ranks(members));
      between = " where ";
    }
    found.push_back(std::move(finding));
  }
  return found;
}

}  // namespace lockstep::laws
