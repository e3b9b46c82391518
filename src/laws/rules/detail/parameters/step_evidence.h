// What happened on the ranks from step to step, kept as long as it may explain why they differ.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <vector>

#include "lockstep/laws/detail/rank_wrapper_map.h"
#include "lockstep/laws/rules/detail/parameters/agreement.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// A step of a wrapper, as ranks that skip steps can still meet in it.
struct StepPlace {
  WrapperKey wrapper;
  std::int32_t sync = -1;
  std::int32_t opt = 0;
  friend auto operator<=>(const StepPlace&, const StepPlace&) = default;
};

inline StepPlace step_place_of(const Event& event) {
  return {wrapper_of(event.at), event.at.sync, event.at.opt};
}

/// The evidence of each step, until it is forgotten.
class StepEvidences {
 public:
  /// Takes gradients, their clipping and clearing, forwards, backwards, steps and the optimizers' options and states.
  void on_event(const Event& event, RankRange who);

  /// Null: nothing was seen there, or it was forgotten.
  const StepEvidence* find(const StepPlace& place) const;

  /// A finding still needs what is known of this step.
  void keep(const StepPlace& place) { kept_.insert(place); }

  /// Whether the ranks made their optimizers of this wrapper with different options.
  bool options_differ(WrapperKey wrapper) const;

  bool keeps_any_of(WrapperKey wrapper, std::int32_t sync) const;

  void keep_nothing() { kept_.clear(); }

  /// Earlier steps of the wrapper, but for those that are kept.
  void forget_before(const StepPlace& here);

 private:
  void on_gradient(const StepPlace& place, const GradEvent& grad, RankRange who);
  void on_options(WrapperKey wrapper, const OptimizerEvent& options, RankRange who);
  void on_step(const StepPlace& place, const StepEvent& step, RankRange who);
  void on_zero_grad(const StepPlace& place);
  std::span<const std::uint64_t> unused_words(const GradEvent& grad);
  StepEvidence& at(const StepPlace& place);

  std::map<StepPlace, StepEvidence> steps_;
  RankWrapperMap<std::uint64_t> options_;  // A hash of all that were recorded.
  StepPlace last_place_;
  StepEvidence* last_ = nullptr;  // What steps_ holds at last_place_.
  std::set<StepPlace> kept_;
  std::vector<std::uint64_t> words_;  // Scratch.
};

}  // namespace lockstep::laws
