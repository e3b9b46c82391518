// An attempt as its ranks left it: who made which calls, and how each of them ended.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/detail/rank_life.h"

namespace lockstep::laws {

/// World ranks by group rank, of each group that an event describes.
using GroupMembers = std::map<std::int32_t, std::vector<std::int32_t>>;

/// Group 0 is the world.
class AttemptEnd {
 public:
  /// Requires: `worlds` and `groups` outlive it.
  AttemptEnd(std::int32_t attempt,
             const Worlds& worlds,
             const GroupMembers& groups,
             RankLives lives)
      : attempt_(attempt), worlds_(&worlds), groups_(&groups), lives_(std::move(lives)) {}

  std::int32_t attempt() const { return attempt_; }

  const RankLives& lives() const { return lives_; }

  /// Ranks of the channel's group, or the two of a message; where no event describes the group, the
  /// ranks that called in it.
  std::vector<std::int32_t> members(const Channel& channel) const;
  /// Members that have not made this call, or died in it; sorted. None of a message whose ranks are
  /// not known.
  std::vector<Rank> missing(const Channel& channel, std::int64_t seq) const;
  bool all_posted(const Channel& channel, std::int64_t seq) const;
  /// Every member makes the call that creates a group: one that never did can never arrive.
  bool is_made_by_all(const Channel& channel) const;

  /// Whether its rank waits in this call forever. A rank that ended well may leave a call
  /// unawaited if all members posted it; one that failed was released by the call or had another
  /// reason; a dead one waits for nothing.
  bool is_stuck(const RankLife& life, const OpenCall& call) const;
  bool is_dead(const RankLife& life) const;
  /// Killed, or gone without a word where others have left one.
  bool has_vanished(const RankLife& life) const;

  /// The ranks by how they ended. One whose trace stops counts as killed.
  std::map<EndOutcome, std::vector<Rank>> outcomes() const;
  /// Who watched the job ended it in the middle: what was under way says nothing.
  bool was_stopped() const;

 private:
  std::int32_t attempt_;
  const Worlds* worlds_;
  const GroupMembers* groups_;
  RankLives lives_;
};

}  // namespace lockstep::laws
