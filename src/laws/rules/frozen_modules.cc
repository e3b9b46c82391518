#include "lockstep/laws/rules/detail/parameters/frozen_modules.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "lockstep/laws/detail/alignment.h"

namespace lockstep::laws {

void FrozenModules::on_data(const Event& event, const DataEvent& data) {
  if (data.part != DataPart::kDrawn && data.part != DataPart::kFrozen) return;
  HeldByRank& by_rank = data.part == DataPart::kDrawn ? drawn_[event.at.attempt]
                                                      : modules_[{event.at.attempt, data.source}];
  Held& held = by_rank[to_int(event.rank)];
  held.changed = held.changed || (held.n > 0 && held.digest != data.digest);
  held.digest = data.digest;
  ++held.n;
}

/// Whether no two ranks have the same, and each has had its own `fewest` times or more.
bool FrozenModules::is_apart(const HeldByRank& by_rank, std::int32_t n_ranks, std::int64_t fewest) {
  std::set<std::uint64_t> digests;
  for (const auto& [rank, held] : by_rank) {
    if (held.changed || held.n < fewest || !digests.insert(held.digest).second) return false;
  }
  return n_ranks > 1 && std::ssize(by_rank) == n_ranks;
}

std::optional<Advice> FrozenModules::advice(std::int32_t n_ranks, const NameTable& names) const {
  constexpr std::int64_t kFewestUses = 2;
  std::vector<std::string> apart;
  for (const auto& [key, by_rank] : modules_) {
    const auto drawn = drawn_.find(key.first);
    if (drawn == drawn_.end() || !is_apart(drawn->second, n_ranks, 1)) continue;
    if (is_apart(by_rank, n_ranks, kFewestUses)) {
      apart.push_back("`" + std::string(names.text(key.second)) + "`");
    }
  }
  if (apart.empty()) return std::nullopt;
  std::ranges::sort(apart);
  std::string message = apart.front();
  const std::size_t n_more = apart.size() - 1;
  if (n_more > 0) {
    message +=
        " (and " + std::to_string(n_more) + (n_more == 1 ? " other module)" : " other modules)");
  }
  message +=
      " differs between all ranks and never changes: no wrapper broadcasts it, nothing trains it, "
      "and the ranks initialised their models with different seeds. Broadcast it from rank 0 (make "
      "it a buffer of the wrapped model), or seed it identically, unless it should differ.";
  return Advice{"A-drawn-apart", std::move(message)};
}

}  // namespace lockstep::laws
