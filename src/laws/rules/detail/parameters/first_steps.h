// Parameters that a first forward found different, and what the step after it left of that.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/finding.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// Findings that wait for the first step after a rank's first forward.
///
///     wrap          forward                    step
///     all ranks: a  rank 0: b, rank 1: c       all ranks: d     put back on purpose
///                                              unequal          a difference that stays
///
/// Programs climb along their own gradient, or add noise of their own, before a forward and put the
/// parameters back, bit for bit, before the step. All ranks then step by one gradient from one
/// point. From two points they cannot arrive at one, rounding of the last bits aside.
///
/// Of each rank and layout the first state after a step is kept, until all ranks' are known.
class FirstSteps {
 public:
  struct Open {
    Finding finding;
    WrapperKey wrapper;
    NameId tensor = kNoName;
  };

  /// A synchronising forward has found parameters: of each rank and wrapper the first one counts.
  void on_forward(const Event& event) {
    Place& place = places_[rank_wrapper_of(event)];
    if (std::exchange(place.began, true)) return;
    place.waits = true;
    ++n_waiting_;
  }

  /// What a step leaves after a load says nothing of the parameters before it.
  void on_load(const Event& event) {
    Place& place = places_[rank_wrapper_of(event)];
    place.began = true;
    stop(place);
  }

  /// False: states after steps need not be shown.
  bool any_waits() const { return n_waiting_ > 0; }

  void open(Open finding) { open_.push_back(std::move(finding)); }

  /// Takes parameters after a step.
  /// Returns: tensors with findings that it has refuted, once the state of all of the wrapper's
  ///     ranks is known.
  std::vector<NameId> on_step(const Event& event,
                              const StateEvent& state,
                              std::int32_t n_members,
                              const NameTable& names) {
    Place& place = places_[rank_wrapper_of(event)];
    if (!place.waits) return {};
    // Several optimizers of one wrapper may leave a layout each.
    if (!place.stepped.insert(state.layout).second) {
      stop(place);
      return {};
    }
    const WrapperKey wrapper = wrapper_of(event.at);
    const auto at = steps_.try_emplace({wrapper, state.layout}).first;
    at->second.add(event, state.digests);
    if (at->second.n_ranks() < n_members) return {};
    const Ballot ballot = std::move(at->second);
    steps_.erase(at);
    return settle(wrapper, ballot, names.layout(state.layout));
  }

  /// The findings that a step has confirmed and, unless more events follow, those that none has
  /// refuted.
  std::vector<Finding> take(bool more_follows) {
    if (!more_follows) {
      for (Open& open : open_) confirmed_.push_back(std::move(open.finding));
      open_.clear();
    }
    return std::move(confirmed_);
  }

 private:
  struct Place {
    bool began = false;
    bool waits = false;
    std::set<LayoutId> stepped;  // Few: one, or one an optimizer.
  };

  void stop(Place& place) {
    n_waiting_ -= place.waits ? 1 : 0;
    place.waits = false;
    place.stepped.clear();
  }

  std::vector<NameId> settle(WrapperKey wrapper,
                             const Ballot& ballot,
                             std::span<const NameId> layout) {
    std::vector<NameId> refuted;
    std::vector<Open> still_open;
    for (Open& open : open_) {
      const auto at = std::find(layout.begin(), layout.end(), open.tensor);
      if (open.wrapper != wrapper || at == layout.end()) {
        still_open.push_back(std::move(open));
      } else if (ballot.against_first(static_cast<std::size_t>(at - layout.begin())).empty()) {
        refuted.push_back(open.tensor);
      } else {
        confirmed_.push_back(std::move(open.finding));
      }
    }
    open_ = std::move(still_open);
    return refuted;
  }

  RankWrapperMap<Place> places_;
  std::int64_t n_waiting_ = 0;  // Of the places.
  std::map<std::pair<WrapperKey, LayoutId>, Ballot> steps_;
  std::vector<Open> open_;
  std::vector<Finding> confirmed_;
};

}  // namespace lockstep::laws
