// Which optimizers a rank has.
#pragma once

#include <map>
#include <vector>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/rules/detail/trained/trained_sets.h"

namespace lockstep::laws {

/// The optimizers of one rank in one attempt, of all its wrappers and of none, as their steps show
/// them. A view: it is made where it is asked.
class RankOptimizers {
 public:
  using AllSets = std::map<RankWrapper, TrainedSets>;

  /// `place`: the rank and attempt; its wrapper does not matter.
  /// Requires: `all` and `names` outlive it.
  RankOptimizers(const AllSets& all, const RankWrapper& place, const NameTable& names);

  bool have(NameId parameter) const;

  bool any_stepped() const;

  /// One that never had a gradient in any of its steps.
  bool one_is_dead() const;

  /// Parameters of `sets` that no backward reached and no optimizer has.
  std::vector<NameId> idle(const TrainedSets& sets, WrapperKey key, const Wrappers& wrappers) const;

  /// Parameters of `sets` that got gradients and are in no optimizer.
  std::vector<NameId> left_over(const TrainedSets& sets,
                                WrapperKey key,
                                const Wrappers& wrappers) const;

 private:
  /// Reduced parameters that are in no optimizer and not ignored, by whether they got a gradient.
  std::vector<NameId> unoptimized(const TrainedSets& sets,
                                  WrapperKey key,
                                  const Wrappers& wrappers,
                                  bool contributed) const;

  AllSets::const_iterator begin_;
  AllSets::const_iterator end_;
  const NameTable* names_;
};

}  // namespace lockstep::laws
