// Which batches a rank's gradients come from, and whether they add to what was reduced before.
#pragma once

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "lockstep/laws/detail/rank_wrapper_map.h"
#include "lockstep/laws/rules/detail/mean/open_reduction.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// Batches count from one reduction to the next; those of evaluations do not count.
class LocalSources {
 public:
  void on_batch(const Event& event, const BatchEvent& batch, RankRange who);
  void on_phase(const Event& event, const PhaseEvent& phase);
  /// A reduction of the tensors of `layout` was published.
  void on_reduction(const Event& event, LayoutId layout, RankRange who);

  /// A local gradient without its rank and place. Its batches are noted in `open`.
  Local source_of(OpenReduction& open, const Event& event, const GradEvent& grad, RankRange who);

  /// Whether these ranks were equal in all of this until now.
  bool shares(const Event& event, RankRange who) const;

 private:
  using Reductions = std::vector<std::pair<LayoutId, std::int32_t>>;

  RankWrapperMap<Batches> batches_;  // Of the current reduction.
  RankWrapperMap<Reductions> last_;  // The step number of each layout's.
  std::set<Rank> evaluating_;
};

}  // namespace lockstep::laws
