// The short way of accumulated-once: ranks in step that contribute once per step.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "lockstep/laws/detail/rank_wrapper_map.h"
#include "lockstep/laws/rules/detail/in_step/gradient_rows.h"
#include "lockstep/trace/cohort.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// All ranks' gradients of one wrapper, from one clearing to the next:
///
///     cleared --inc--> contributed --pre--> reduced --post, used, clip, step--> reduced
///        ^            with inc's bits, on every rank                               |
///        +-------------------------------- zero_grad -----------------------------+
///
/// Evaluations may begin and end anywhere, as long as they contribute nothing.
///
/// Events in this order break nothing and need no sums. Any other is refused; the events since the
/// last clearing can then be had again, rank by rank, to be judged with it the long way.
class SingleContributions {
 public:
  /// False: refused, and nothing changed. Requires: events of one wrapper, of the same ranks.
  bool take(const CohortEvent& event);

  /// How many tensors of all ranks were found right before a reduction.
  std::int64_t n_checked() const { return n_checked_; }

  /// Calls observe(event) for each rank and event since gradients were last cleared, that clearing
  /// included, rank after rank.
  void replay(const std::function<void(const Event&)>& observe) const;

 private:
  enum class Phase : std::uint8_t { kCleared, kContributed, kReduced };

  /// A copy of what all ranks recorded at one place. Spans in `body` are dead until it is replayed.
  struct Kept {
    Position at;
    EventBody body;
    GradientRows tensors;  ///< Of gradients.
  };

  bool take_grad(const CohortEvent& event, const GradEvent& grad);
  bool take_contribution(const CohortEvent& event, const GradEvent& grad);
  bool take_before_reduction(const CohortEvent& event);
  bool take_clearing(const CohortEvent& event, const ZeroGradEvent& clearing);
  bool contributed_alike(const CohortEvent& event) const;
  Kept& keep(const CohortEvent& event);
  Event event_of(const Kept& kept, std::int32_t rank) const;

  const Kept& contribution() const { return kept_[contribution_]; }

  std::int32_t n_ranks_ = 0;
  Phase phase_ = Phase::kCleared;
  std::vector<Kept> kept_;  // The first n_kept_ of them count; the others are warm memory.
  std::size_t n_kept_ = 0;
  bool evaluating_ = false;
  std::size_t contribution_ = 0;  // Where in kept_, from kContributed on.
  std::int64_t n_checked_ = 0;
};

}  // namespace lockstep::laws
