#include "lockstep/laws/rules/detail/checkpoints/continuations.h"

#include <algorithm>

namespace lockstep::laws {

std::string Continuations::Missed::message() const {
  const std::string what =
      found < 0 ? "no checkpoint" : "only the checkpoint of step " + std::to_string(found);
  std::string text =
      "found " + what + ", although that of step " + std::to_string(newest) + " had been published";
  if (!looked_in.empty()) text += " in " + published_in + "; the restart looked in " + looked_in;
  return text;
}

void Continuations::on_save(std::int32_t attempt, std::int64_t step, const std::string& folder) {
  published_[{attempt, step}] = folder;
}

void Continuations::on_load(std::int32_t attempt,
                            Rank rank,
                            std::int64_t step,
                            const std::string& folder) {
  loads_[attempt].emplace(to_int(rank), step);
  if (step < 0) looked_in_[attempt] = folder;
}

std::vector<Continuations::Missed> Continuations::missed(std::int64_t& n_checked) const {
  std::vector<Missed> all;
  std::int64_t newest = -1;
  const std::int32_t last = loads_.empty() ? -1 : loads_.rbegin()->first;
  for (std::int32_t attempt = 0; attempt <= last; ++attempt) {
    if (fresh_.contains(attempt)) newest = -1;
    if (const auto loaded = loads_.find(attempt); loaded != loads_.end()) {
      if (newest >= 0) ++n_checked;
      Missed missed = judge(attempt, loaded->second, newest);
      newest = missed.found;
      if (!missed.ranks.empty()) all.push_back(std::move(missed));
    }
    const auto end = published_.lower_bound({attempt + 1, -1});
    for (auto at = published_.lower_bound({attempt, -1}); at != end; ++at) {
      newest = std::max(newest, at->first.second);
    }
  }
  return all;
}

Continuations::Missed Continuations::judge(std::int32_t attempt,
                                           const Steps& steps,
                                           std::int64_t newest) const {
  Missed missed{.attempt = attempt, .newest = newest, .found = newest, .ranks = {}};
  for (const auto& [rank, step] : steps) {
    if (step >= newest) continue;
    missed.ranks.push_back(Rank{rank});
    missed.found = step;
  }
  const auto looked = looked_in_.find(attempt);
  if (missed.found >= 0 || looked == looked_in_.end() || published_.empty()) return missed;
  const bool known = std::ranges::any_of(
      published_, [&](const auto& entry) { return entry.second == looked->second; });
  if (known) return missed;
  missed.published_in = published_.begin()->second;
  missed.looked_in = looked->second;
  return missed;
}

}  // namespace lockstep::laws
