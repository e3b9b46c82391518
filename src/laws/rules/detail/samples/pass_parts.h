// A pass over a data set by ranks that train in groups: one part per group that divides it.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/rules/detail/samples/pass_tally.h"

namespace lockstep::laws {

/// One pass over one split, while it lasts.
struct Pass {
  std::map<std::int32_t, DeclaredByRank> declared;  ///< By attempt.
  std::vector<Consumed> consumed;
  std::int32_t n_readers = 0;  ///< Ranks that divide it; 0: the whole world.
};

/// Groups, smaller than the world, whose ranks divide a data set among themselves: the wrapper of each trains on what its sampler
/// was given as many replicas for as the group has ranks. Groups that train apart may have wrappers of the same number.
class DividingGroups {
 public:
  void on_wrap(const Event& event, const WrapEvent& wrap, const Worlds& worlds);

  bool any() const { return !groups_.empty(); }

  /// The group of the rank's wrapper that trains on this or, where it is not known which does (wrapper -1), of its wrappers.
  /// -1: ranks divide it as the world does, or as nothing explains.
  std::int32_t of(WrapperKey trains, std::int32_t rank, const EpochEvent& declared) const;

 private:
  struct Group {
    std::int32_t number = 0;
    std::int32_t n_ranks = 0;
  };

  std::map<std::pair<WrapperKey, std::int32_t>, Group> groups_;  // By wrapper and rank.
};

/// Groups, smaller than the world, whose ranks exchange values inside their losses: they compute one loss together, as ranks that
/// divide a sequence do, and read the same samples for it.
class JointLosses {
 public:
  void on_group(const Event& event, const GroupEvent& group);
  void on_exchange(const Event& event, const ExchangeEvent& exchange);

  /// Whether the readers of each share of the pass are ranks of one such group.
  bool explain(const PassTally& tally) const;

 private:
  using Members = std::vector<std::int32_t>;
  using OfRank = std::pair<std::int32_t, std::int32_t>;  // Attempt and rank.

  std::map<std::pair<OfRank, std::int32_t>, Members> members_;  // Of a group by its number there.
  std::map<OfRank, std::set<Members>> joint_;
};

/// Which ranks of a pass are such a group.
class PassParts {
 public:
  /// Takes wraps, groups and exchanges, and leaves others alone.
  void on_event(const Event& event, const Worlds& worlds);

  /// Whether several ranks may read one share, since they compute one replica together.
  bool may_share(const PassTally& tally) const {
    return !averaging_.contains(tally.attempt) || losses_.explain(tally);
  }

  /// Whether some wrapper is over a part of the world.
  bool any() const { return groups_.any(); }

  /// What each group did of the pass, and what all other ranks did.
  std::vector<Pass> parts_of(const Pass& pass) const;

 private:
  /// By attempt and rank.
  using Dividing = std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t>;

  Dividing dividing_groups(const Pass& pass) const;

  DividingGroups groups_;
  JointLosses losses_;
  std::set<std::int32_t>
      averaging_;  // Attempts in which all ranks average gradients with one another.
};

}  // namespace lockstep::laws
