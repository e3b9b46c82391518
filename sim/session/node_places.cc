#include "lockstep/sim/session/detail/node_places.h"

#include <string>

namespace lockstep::sim {

std::int32_t disk_of(const SessionOptions& options, std::int32_t rank) {
  const NetOptions& net = options.group.net;
  if (options.disk_scope == DiskScope::kShared || net.ranks_per_node <= 0) return 0;
  const std::int32_t place = net.places.empty() ? rank : net.places[static_cast<std::size_t>(rank)];
  return place / net.ranks_per_node;
}

std::vector<RankVariable> environment_of(const SessionOptions& options) {
  const std::int32_t per_node = options.group.net.ranks_per_node;
  if (per_node <= 0) return options.environment;
  std::vector<RankVariable> environment;
  auto given = options.environment.begin();
  for (std::int32_t rank = 0; rank < options.n_ranks; ++rank) {
    for (; given != options.environment.end() && given->rank == rank; ++given) {
      environment.push_back(*given);
    }
    environment.push_back({rank, "LOCAL_RANK", std::to_string(rank % per_node)});
    environment.push_back({rank, "GROUP_RANK", std::to_string(rank / per_node)});
    if (options.disk_scope == DiskScope::kShared) continue;
    environment.push_back({rank, "LOCKSTEP_DISK", "node" + std::to_string(disk_of(options, rank))});
  }
  return environment;
}

}  // namespace lockstep::sim
