// What forwards found parameters to be, where that is not what the step before had left.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// Parameters that were written between two steps, by something else than an optimizer.
///
///     step k            forward k + 1          step k + 1
///     all ranks: a      rank 1 finds: b        ranks differ, with equal gradients
///
/// A rank records what it found only where that is not what it had recorded last: a rank without a
/// record found what it had left.
class Rewritten {
 public:
  void on_state(const Event& event,
                const StateEvent& state,
                RankRange who,
                const NameTable& names) {
    const std::span<const NameId> layout = names.layout(state.layout);
    for (std::size_t i = 0; i < layout.size(); ++i) {
      Finds& finds = found_[{wrapper_of(event.at), event.at.sync}][layout[i]];
      for (std::int32_t rank = who.first; rank < who.first + who.n; ++rank) {
        finds.emplace_back(rank, state.digests[i]);
      }
    }
  }

  /// After this many finished steps the tensors of the layout were equal on all ranks.
  void on_equal(const AlignmentKey& alignment, std::int32_t n_steps) {
    n_equal_[{alignment.wrapper, alignment.layout}] = n_steps;
  }

  /// That number, of the last time that the tensor was among them; -1: never.
  std::int32_t n_equal(WrapperKey wrapper, NameId tensor, const NameTable& names) const {
    std::int32_t last = -1;
    for (auto at = n_equal_.lower_bound({wrapper, 0}); at != n_equal_.end(); ++at) {
      const auto& [known, layout] = at->first;
      if (known != wrapper) break;
      const std::span<const NameId> tensors = names.layout(static_cast<LayoutId>(layout));
      if (Wrappers::contains(tensors, tensor)) last = std::max(last, at->second);
    }
    return last;
  }

  struct Writers {
    std::vector<Rank> ranks;
    bool all_wrote = false;  ///< Or all had been written to in steps that were not recorded.
  };

  /// The ranks for which something had written to the tensor before this forward: all that did
  /// where others did not; where every rank did, those that differ from the lowest one. None where
  /// the ranks still agreed.
  Writers writers(WrapperKey wrapper,
                  std::int32_t sync,
                  NameId tensor,
                  std::int32_t n_members) const {
    const auto forward = found_.find({wrapper, sync});
    if (forward == found_.end()) return {};
    const auto known = forward->second.find(tensor);
    if (known == forward->second.end()) return {};
    Finds finds = known->second;
    std::ranges::sort(finds);
    Writers writers{.ranks = {}, .all_wrote = std::ssize(finds) >= n_members};
    for (const auto& [rank, digest] : finds) {
      if (writers.all_wrote && digest == finds.front().second) continue;
      writers.ranks.push_back(Rank{rank});
    }
    return writers;
  }

  /// Forgets the wrapper's forwards before this one, but for those that `keeps` wants.
  template <typename Keeps>
  void forget_before(WrapperKey wrapper, std::int32_t sync, const Keeps& keeps) {
    for (auto at = found_.lower_bound({wrapper, 0}); at != found_.end();) {
      if (at->first.first != wrapper || at->first.second >= sync) return;
      at = keeps(at->first.second) ? std::next(at) : found_.erase(at);
    }
  }

 private:
  using Finds = std::vector<std::pair<std::int32_t, std::uint64_t>>;  // Rank and digest.

  std::map<std::pair<WrapperKey, std::int32_t>, std::map<NameId, Finds>> found_;
  std::map<std::pair<WrapperKey, std::uint32_t>, std::int32_t> n_equal_;  // By layout.
};

}  // namespace lockstep::laws
