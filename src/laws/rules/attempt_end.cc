#include "lockstep/laws/rules/detail/ends/attempt_end.h"

#include <algorithm>

namespace lockstep::laws {

namespace {

std::int64_t posted_by(const RankLife& life, const Channel& channel) {
  const auto known = life.n_posted.find(channel);
  return known == life.n_posted.end() ? 0 : known->second;
}

}  // namespace

std::vector<std::int32_t> AttemptEnd::members(const Channel& channel) const {
  std::vector<std::int32_t> ranks;
  if (channel.source >= 0)
    return {std::min(channel.source, channel.target), std::max(channel.source, channel.target)};
  if (channel.group == 0) {
    const std::int32_t n_ranks = worlds_->of(attempt_);
    for (std::int32_t rank = 0; rank < n_ranks; ++rank) ranks.push_back(rank);
    return ranks;
  }
  const auto known = groups_->find(channel.group);
  if (known != groups_->end()) return known->second;
  for (const auto& [rank, life] : lives_) {
    if (life.n_posted.contains(channel)) ranks.push_back(rank);
  }
  return ranks;
}

std::vector<Rank> AttemptEnd::missing(const Channel& channel, std::int64_t seq) const {
  std::vector<Rank> ranks;
  const bool described = channel.group == 0 || groups_->contains(channel.group);
  if (channel.source >= 0 && !described) return ranks;  // Peers are not ranks there.
  for (const std::int32_t rank : members(channel)) {
    const auto life = lives_.find(rank);
    const auto posted = life == lives_.end() ? 0 : posted_by(life->second, channel);
    // A rank that died in the call no longer takes part in it.
    const bool left =
        posted > seq && has_vanished(life->second) && life->second.find(channel, seq) != nullptr;
    if (posted <= seq || left) ranks.push_back(Rank{rank});
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

bool AttemptEnd::all_posted(const Channel& channel, std::int64_t seq) const {
  const std::vector<std::int32_t> ranks = members(channel);
  return !ranks.empty() && std::all_of(ranks.begin(), ranks.end(), [&](std::int32_t rank) {
    const auto life = lives_.find(rank);
    return life != lives_.end() && posted_by(life->second, channel) > seq;
  });
}

bool AttemptEnd::is_made_by_all(const Channel& channel) const {
  if (!groups_->contains(channel.group)) return true;
  const std::vector<std::int32_t> ranks = members(channel);
  return std::all_of(ranks.begin(), ranks.end(), [&](std::int32_t rank) {
    const auto life = lives_.find(rank);
    return life != lives_.end() && life->second.made.contains(channel.group);
  });
}

bool AttemptEnd::is_stuck(const RankLife& life, const OpenCall& call) const {
  if (life.outcome == EndOutcome::kOk) return !missing(call.channel, call.seq).empty();
  if (life.outcome == EndOutcome::kException) return call.failed;
  return !has_vanished(life);
}

bool AttemptEnd::is_dead(const RankLife& life) const {
  return life.outcome == EndOutcome::kException || has_vanished(life);
}

bool AttemptEnd::has_vanished(const RankLife& life) const {
  if (life.outcome == EndOutcome::kKilled) return true;
  return life.outcome == EndOutcome::kNone && any_ended(lives_);
}

std::map<EndOutcome, std::vector<Rank>> AttemptEnd::outcomes() const {
  std::map<EndOutcome, std::vector<Rank>> by_outcome;
  const std::int32_t n_ranks = worlds_->of(attempt_);
  for (std::int32_t rank = 0; rank < n_ranks; ++rank) {
    const auto known = lives_.find(rank);
    const bool unknown = known == lives_.end() && !worlds_->known(attempt_);
    if (unknown || is_unseen(lives_, rank)) continue;
    const bool ended = known != lives_.end() && known->second.outcome != EndOutcome::kNone;
    by_outcome[ended ? known->second.outcome : EndOutcome::kKilled].push_back(Rank{rank});
  }
  return by_outcome;
}

bool AttemptEnd::was_stopped() const {
  return std::any_of(lives_.begin(), lives_.end(), [](const auto& entry) {
    return entry.second.reason == EndReason::kLawBroken;
  });
}

}  // namespace lockstep::laws
