#include "lockstep/laws/rules/detail/reduced/divisions_again.h"

#include <fmt/core.h>

namespace lockstep::laws {

void DivisionsAgain::on_step(const Event& event,
                             const StepEvent& step,
                             const Wrapped& wrapped,
                             const Gradients& gradients,
                             const NameTable& names) {
  if (wrapped.by == nullptr || !wrapped.by->synchronizes) return;
  const auto& [reduced, used] = gradients;
  const bool as_it_is = reduced.digests == used.digests;
  const bool unscaled =
      !as_it_is && step.scale != 1.0 && is_divided_by(step.scale, reduced, used, names);
  losses_.on_step(event, wrapped.who, as_it_is || unscaled);
  if (wrapped.who.first != 0) return;  // All at once, or rank 0 alone.
  Count& count = counts_[wrapper_of(event.at)];
  count.n_ranks = wrapped.n_ranks;
  ++count.n_steps;
  // A loss scale, or as many micro-steps as ranks: what the program may divide by, too.
  if (as_it_is || step.scale != 1.0 || event.at.micro + 1 == wrapped.n_ranks) return;
  if (is_divided_by(wrapped.n_ranks, reduced, used, names)) ++count.n_divided;
}

std::vector<Advice> DivisionsAgain::advice() const {
  std::vector<Advice> advice;
  for (const auto& [wrapper, count] : counts_) {
    if (count.n_steps < 2 || count.n_divided != count.n_steps || hooked_.contains(wrapper)) {
      continue;
    }
    advice.push_back(
        {"A-divided-again",
         fmt::format("all {} steps divided the averaged gradients by {} (the number of ranks), "
                     "although the wrapper already divides by it. Divide once.",
                     count.n_steps,
                     count.n_ranks)});
  }
  for (const WrapperKey& wrapper : losses_.wrappers()) {
    if (hooked_.contains(wrapper)) continue;
    for (Advice& one : losses_.advice(wrapper)) advice.push_back(std::move(one));
  }
  return advice;
}

}  // namespace lockstep::laws
