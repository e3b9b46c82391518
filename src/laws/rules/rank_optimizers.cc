#include "lockstep/laws/rules/detail/trained/rank_optimizers.h"

#include <algorithm>
#include <limits>

namespace lockstep::laws {

RankOptimizers::RankOptimizers(const AllSets& all, const RankWrapper& place, const NameTable& names)
    : begin_(all.lower_bound({place.rank, {place.key.attempt, -1}})),
      end_(all.upper_bound(
          {place.rank, {place.key.attempt, std::numeric_limits<std::int32_t>::max()}})),
      names_(&names) {}

bool RankOptimizers::have(NameId parameter) const {
  return std::any_of(begin_, end_, [&](const auto& entry) {
    return std::ranges::any_of(entry.second.optimized, [&](LayoutId layout) {
      return Wrappers::contains(names_->layout(layout), parameter);
    });
  });
}

bool RankOptimizers::any_stepped() const {
  return std::any_of(begin_, end_, [](const auto& entry) { return entry.second.n_steps > 0; });
}

bool RankOptimizers::one_is_dead() const {
  return std::any_of(begin_, end_, [](const auto& entry) {
    return entry.second.n_steps > 0 && entry.second.n_with_gradient == 0;
  });
}

std::vector<NameId> RankOptimizers::idle(const TrainedSets& sets,
                                         WrapperKey key,
                                         const Wrappers& wrappers) const {
  return unoptimized(sets, key, wrappers, false);
}

std::vector<NameId> RankOptimizers::left_over(const TrainedSets& sets,
                                              WrapperKey key,
                                              const Wrappers& wrappers) const {
  return unoptimized(sets, key, wrappers, true);
}

std::vector<NameId> RankOptimizers::unoptimized(const TrainedSets& sets,
                                                WrapperKey key,
                                                const Wrappers& wrappers,
                                                bool contributed) const {
  std::vector<NameId> found;
  if (sets.reduced == kNoLayout) return found;
  const std::span<const NameId> layout = names_->layout(sets.reduced);
  for (std::size_t i = 0; i < layout.size(); ++i) {
    if (bit(sets.contributed, i) != contributed || have(layout[i])) continue;
    // What changes is trained, under another name perhaps: wrappers may share it.
    if (contributed && sets.moved.contains(layout[i])) continue;
    if (!wrappers.ignored(key, layout[i], *names_)) found.push_back(layout[i]);
  }
  return found;
}

}  // namespace lockstep::laws
