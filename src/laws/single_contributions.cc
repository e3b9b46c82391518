#include "lockstep/laws/rules/detail/single_contributions.h"

#include <algorithm>
#include <span>
#include <variant>

#include "lockstep/laws/detail/alignment.h"

namespace lockstep::laws {

namespace {

template <typename T>
void append_all(std::vector<T>& all, std::span<const T> more) {
  all.insert(all.end(), more.begin(), more.end());
}

template <typename T>
std::span<const T> nth_part(const std::vector<T>& all, std::size_t nth, std::size_t size) {
  return std::span(all).subspan(nth * size, size);
}

bool is_sketched(const GradEvent& grad) { return grad.sketches.size() == grad.digests.size(); }

std::int64_t n_defined(const GradEvent& grad) {
  std::int64_t n = 0;
  for (std::size_t i = 0; i < grad.digests.size(); ++i) n += bit(grad.undefined, i) ? 0 : 1;
  return n;
}

bool have_same_shape(const CohortEvent& event) {
  return event.similarity <= Similarity::kSameShape;
}

}  // namespace

void SingleContributions::keep_tensors(const CohortEvent& event, Kept& kept) {
  const auto& first = std::get<GradEvent>(event.first->body);
  kept.n_tensors = first.digests.size();
  kept.n_bytes = first.undefined.size();
  kept.of_each = !event.equal();
  kept.n_elems.assign(first.n_elems.begin(), first.n_elems.end());
  kept.digests.clear();
  kept.sketches.clear();
  kept.undefined.clear();
  const std::int32_t n_parts = kept.of_each ? event.n_ranks() : 1;
  for (std::int32_t rank = 0; rank < n_parts; ++rank) {
    const auto& own = std::get<GradEvent>(event.body_of(rank));
    append_all(kept.digests, own.digests);
    append_all(kept.sketches, own.sketches);
    append_all(kept.undefined, own.undefined);
  }
}

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
  const LayoutId layout = std::get<GradEvent>(kept.body).layout;
  for (std::int32_t rank = 0; rank < event.n_ranks(); ++rank) {
    const auto& own = std::get<GradEvent>(event.body_of(rank));
    const auto nth = static_cast<std::size_t>(kept.of_each ? rank : 0);
    const bool same =
        own.layout == layout && is_sketched(own) &&
        std::ranges::equal(own.digests, nth_part(kept.digests, nth, kept.n_tensors)) &&
        std::ranges::equal(own.undefined, nth_part(kept.undefined, nth, kept.n_bytes));
    if (!same) return false;
  }
  return true;
}

bool SingleContributions::take_contribution(const CohortEvent& event, const GradEvent& grad) {
  if (evaluating_ || phase_ != Phase::kCleared || !have_same_shape(event) || !is_sketched(grad))
    return false;
  contribution_ = n_kept_;
  keep_tensors(event, keep(event));
  phase_ = Phase::kContributed;
  return true;
}

bool SingleContributions::take_before_reduction(const CohortEvent& event) {
  const bool is_next = phase_ == Phase::kContributed && have_same_shape(event);
  if (!is_next || !contributed_alike(event)) return false;
  keep(event);  // The tensors are those of the contribution.
  for (std::int32_t rank = 0; rank < event.n_ranks(); ++rank) {
    n_checked_ += n_defined(std::get<GradEvent>(event.body_of(rank)));
  }
  phase_ = Phase::kReduced;
  return true;
}

bool SingleContributions::take_grad(const CohortEvent& event, const GradEvent& grad) {
  if (grad.point == GradPoint::kInc) return take_contribution(event, grad);
  if (grad.point == GradPoint::kPre) return take_before_reduction(event);
  if (phase_ != Phase::kReduced || !event.equal()) return false;
  keep_tensors(event, keep(event));
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
  const Kept& tensors = grad->point == GradPoint::kPre ? contribution() : kept;
  const auto nth = static_cast<std::size_t>(tensors.of_each ? rank : 0);
  grad->digests = nth_part(tensors.digests, nth, tensors.n_tensors);
  grad->undefined = nth_part(tensors.undefined, nth, tensors.n_bytes);
  // Gradients as they are used may have no sketches.
  const std::size_t n_sketches = tensors.sketches.empty() ? 0 : tensors.n_tensors;
  grad->sketches = nth_part(tensors.sketches, nth, n_sketches);
  grad->n_elems = tensors.n_elems;
  return event;
}

void SingleContributions::replay(const std::function<void(const Event&)>& observe) const {
  for (std::int32_t rank = 0; rank < n_ranks_; ++rank) {
    for (std::size_t i = 0; i < n_kept_; ++i) observe(event_of(kept_[i], rank));
  }
}

}  // namespace lockstep::laws
