#include "lockstep/laws/rules/detail/trained/trained_sets.h"

#include <algorithm>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/tensor/digest.h"

namespace lockstep::laws {

namespace {

/// Values that are all zero, where sketches were taken.
bool is_all_zero(const GradEvent& grad) {
  return !grad.sketches.empty() &&
         std::ranges::all_of(grad.sketches, [](const Sketch& one) { return one.l1 == 0.0; });
}

}  // namespace

void TrainedSets::contribute(const GradEvent& grad, std::int32_t epoch) {
  is_open = true;
  emptied = false;
  reduced = grad.layout;
  awaited.reset();
  replaced.reset();
  contributed.resize(std::max(contributed.size(), grad.undefined.size()));
  for (std::size_t i = 0; i < grad.undefined.size(); ++i) {
    contributed[i] = static_cast<std::uint8_t>(contributed[i] | ~grad.undefined[i]);
  }
  windows.on_contribution(epoch);
}

void TrainedSets::use(const GradEvent& grad, std::int32_t opt) {
  has_gradient = false;
  for (std::size_t i = 0; i < grad.digests.size() && !has_gradient; ++i) {
    has_gradient = !bit(grad.undefined, i);
  }
  is_zero = is_all_zero(grad);
  used = 0;
  for (const std::uint64_t digest : grad.digests) used = mix64(used ^ digest);
  if (!has_gradient || n_with_gradient > 0) return;
  first_used = used;
  first_step = opt;
}

void TrainedSets::clear(std::int32_t epoch) {
  windows.on_cleared(epoch);
  emptied = emptied || is_open;
  is_open = false;
}

void TrainedSets::see(const StateEvent& state, const NameTable& names) {
  if (state.point == StatePoint::kWrap) {
    began = state.layout;
    began_as.assign(state.digests.begin(), state.digests.end());
  } else if (state.layout == began && state.digests.size() == began_as.size()) {
    const std::span<const NameId> layout = names.layout(state.layout);
    for (std::size_t i = 0; i < layout.size(); ++i) {
      if (state.digests[i] != began_as[i]) moved.insert(layout[i]);
    }
  }
}

void TrainedSets::step(const StepEvent& step, std::int32_t opt) {
  if (std::find(optimized.begin(), optimized.end(), step.layout) == optimized.end()) {
    optimized.push_back(step.layout);
  }
  ++n_steps;
  // A step that is skipped for an overflow had gradients.
  if (has_gradient || step.skipped) ++n_with_gradient;
  const bool uses = step.skipped || (has_gradient && !is_zero);
  if (uses) ++n_used;
  if (!uses && emptied && !emptied_at) emptied_at = opt;
  emptied = is_open = false;
  last_step = opt;
  windows.on_step();
}

}  // namespace lockstep::laws
