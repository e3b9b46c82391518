#include "lockstep/laws/rules/detail/in_step/single_contributions.h"

#include <algorithm>
#include <span>
#include <variant>

#include "lockstep/laws/detail/alignment.h"

namespace lockstep::laws {

namespace {

bool is_sketched(const GradEvent& grad) { return grad.sketches.size() == grad.digests.size(); }

std::int64_t n_defined(const GradEvent& grad) {
  std::int64_t n = 0;
  for (std::size_t i = 0; i < grad.digests.size(); ++i) n += bit(grad.undefined, i) ? 0 : 1;
  return n;
}

}  // namespace

SingleContributions::Kept& SingleContributions::keep(const CohortEvent& event) {
  n_ranks_ = event.n_ranks();
  if (n_kept_ == kept_.size()) kept_.emplace_back();
  Kept& kept = kept_[n_kept_++];
  kept.at = event.first->at;
  kept.body = event.first->body;
  return kept;
}

/// Whether what each rank hands to the reduction has the bits of its only contribution.
bool SingleContributions::contributed_alike(const CohortEvent& event) const {
  const Kept& kept = contribution();
  const auto& first = std::get<GradEvent>(event.first->body);
  return first.layout == std::get<GradEvent>(kept.body).layout && is_sketched(first) &&
         kept.tensors.has_digests_of(event);
}

bool SingleContributions::take_contribution(const CohortEvent& event, const GradEvent& grad) {
  if (evaluating_ || phase_ != Phase::kCleared || !GradientRows::takes(event) || !is_sketched(grad))
    return false;
  contribution_ = n_kept_;
  keep(event).tensors.keep(event);
  phase_ = Phase::kContributed;
  return true;
}

bool SingleContributions::take_before_reduction(const CohortEvent& event) {
  const bool is_next = phase_ == Phase::kContributed && GradientRows::takes(event);
  if (!is_next || !contributed_alike(event)) return false;
  keep(event);  // The tensors are those of the contribution.
  n_checked_ += n_defined(std::get<GradEvent>(event.first->body)) * event.n_ranks();
  phase_ = Phase::kReduced;
  return true;
}

bool SingleContributions::take_grad(const CohortEvent& event, const GradEvent& grad) {
  if (grad.point == GradPoint::kInc) return take_contribution(event, grad);
  if (grad.point == GradPoint::kPre) return take_before_reduction(event);
  if (phase_ != Phase::kReduced || !event.equal()) return false;
  keep(event).tensors.keep(event);
  return true;
}

bool SingleContributions::take_clearing(const CohortEvent& event, const ZeroGradEvent& clearing) {
  // An optimizer clears its own parameters only.
  const bool all = phase_ == Phase::kCleared ||
                   std::get<GradEvent>(contribution().body).layout == clearing.layout;
  if (!all || phase_ == Phase::kContributed) return false;
  n_kept_ = 0;
  keep(event);
  if (evaluating_) keep(event).body = PhaseEvent{.kind = PhaseKind::kEval};
  phase_ = Phase::kCleared;
  return true;
}

bool SingleContributions::take(const CohortEvent& event) {
  const EventBody& body = event.first->body;
  if (const auto* grad = std::get_if<GradEvent>(&body)) return take_grad(event, *grad);
  if (!event.equal()) return false;
  if (const auto* turn = std::get_if<PhaseEvent>(&body)) {
    evaluating_ = turn->kind == PhaseKind::kEval;
    keep(event);
    return true;
  }
  if (const auto* clearing = std::get_if<ZeroGradEvent>(&body))
    return take_clearing(event, *clearing);
  if (phase_ != Phase::kReduced) return false;
  keep(event);
  return true;
}

Event SingleContributions::event_of(const Kept& kept, std::int32_t rank) const {
  Event event{Rank{rank}, 0, {}, kept.at, kept.body};
  auto* const grad = std::get_if<GradEvent>(&event.body);
  if (grad == nullptr) return event;
  const Kept& source = grad->point == GradPoint::kPre ? contribution() : kept;
  *grad = source.tensors.of(rank, *grad);
  return event;
}

void SingleContributions::replay(const std::function<void(const Event&)>& observe) const {
  for (std::int32_t rank = 0; rank < n_ranks_; ++rank) {
    for (std::size_t i = 0; i < n_kept_; ++i) observe(event_of(kept_[i], rank));
  }
}

}  // namespace lockstep::laws
