#include "lockstep/sim/fault/agent.h"

#include <algorithm>

namespace lockstep::sim {

std::int32_t AgentOptions::n_ranks_of(std::int32_t attempt, std::int32_t first) const {
  if (attempt == 0 || n_ranks_later.empty()) return first;
  return n_ranks_later[std::min(static_cast<std::size_t>(attempt) - 1, n_ranks_later.size() - 1)];
}

std::vector<std::int32_t> AgentOptions::places_of(std::int32_t attempt,
                                                  std::int32_t n_ranks) const {
  std::vector<std::int32_t> places;
  if (!reassign || attempt == 0) return places;
  places.reserve(static_cast<std::size_t>(n_ranks));
  for (std::int32_t rank = 0; rank < n_ranks; ++rank) {
    places.push_back((rank + attempt) % n_ranks);
  }
  return places;
}

std::string root_cause(const WorldResult& world) {
  const RankEnd* first = nullptr;
  std::size_t first_rank = 0;
  for (std::size_t rank = 0; rank < world.ends.size(); ++rank) {
    const RankEnd& end = world.ends[rank];
    if (end.outcome == RankOutcome::kFinished) continue;
    if (first != nullptr && first->time <= end.time) continue;
    first = &end;
    first_rank = rank;
  }
  if (first == nullptr) return {};
  return "rank " + std::to_string(first_rank) + ": " + first->detail;
}

}  // namespace lockstep::sim
