// A pass over a data set by ranks that train in groups: one part per group that divides it.
#pragma once

#include <cstdint>
#include <map>
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

/// The wrapper, over a part of the world, whose own ranks divide the data set: its sampler was given as many
/// replicas as the wrapper has. -1: ranks divide it as the world does, or as nothing explains.
std::int32_t dividing_wrapper(WrapperKey trains,
                              const EpochEvent& declared,
                              const Wrappers& wrappers,
                              const Worlds& worlds);

/// Which ranks of a pass are such a group.
class PassParts {
 public:
  void on_wrap(const Event& event, const WrapEvent& wrap, const Worlds& worlds) {
    wrappers_.on_wrap(event, wrap);
    any_ = any_ || wrap.n_ranks < worlds.of(event.at.attempt);
  }

  /// Whether some wrapper is over a part of the world.
  bool any() const { return any_; }

  /// What each group did of the pass, and what all other ranks did.
  std::vector<Pass> parts_of(const Pass& pass, const Worlds& worlds) const;

 private:
  /// By attempt and rank.
  using Dividing = std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t>;

  Dividing dividing_wrappers(const Pass& pass, const Worlds& worlds) const;

  Wrappers wrappers_;
  bool any_ = false;
};

}  // namespace lockstep::laws
