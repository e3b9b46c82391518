#include "lockstep/laws/rules/detail/reduced/reduction_window.h"

#include <algorithm>

#include "lockstep/laws/detail/alignment.h"

namespace lockstep::laws {

void ReductionWindow::on_forward(const ForwardEvent& forward) {
  wrapped_forward_ = wrapped_forward_ || forward.through_wrapper;
  last_synchronizing_ = forward.synchronizing;
}

void ReductionWindow::on_grad(const GradEvent& grad, const NameTable& names) {
  const std::span<const NameId> layout = names.layout(grad.layout);
  for (std::size_t i = 0; i < layout.size(); ++i) {
    TensorState& state = tensor(layout[i], i);
    const bool undefined = bit(grad.undefined, i);
    if (grad.point == GradPoint::kInc && !undefined) {
      state.unreduced = true;
      state.contributed = true;
      state.ever = true;
    } else if (grad.point == GradPoint::kPost) {
      state.unreduced = false;
    } else if (grad.point == GradPoint::kUsed) {
      state.absent = undefined;
    }
  }
}

void ReductionWindow::on_reduction(std::int64_t n_steps) {
  ++n_reductions_;
  const bool joins = !parted_ && n_steps_ == n_steps;
  n_in_a_row_ = joins ? n_in_a_row_ + 1 : 1;
  n_steps_ = n_steps;
  parted_ = false;
}

void ReductionWindow::restart() {
  for (TensorState& state : tensors_) state = {.name = state.name, .ever = state.ever};
  n_reductions_ = 0;
  n_in_a_row_ = 0;
  parted_ = false;
  wrapped_forward_ = false;
  last_synchronizing_ = true;
}

bool ReductionWindow::any_unreduced() const {
  return std::ranges::any_of(tensors_, &TensorState::unreduced);
}

bool ReductionWindow::ever_used(NameId name) const {
  return std::ranges::any_of(
      tensors_, [&](const TensorState& state) { return state.name == name && state.ever; });
}

UnreducedEvidence ReductionWindow::evidence(const WrapEvent& wrap, const NameTable& names) const {
  if (!wrap.synchronizes) return {};
  if (!wrapped_forward_) return {Cause::kBypassWrapper};
  if (n_reductions_ > 0 || !last_synchronizing_) return {Cause::kLastMicroUnsynced};
  for (const NameId name : names.layout(wrap.params)) {
    const bool contributed = std::ranges::any_of(tensors_, [&](const TensorState& state) {
      return state.name == name && state.contributed;
    });
    if (!contributed) return {Cause::kUnusedBucketUnfired, name};
  }
  return {};
}

ReductionWindow::TensorState& ReductionWindow::tensor(NameId name, std::size_t hint) {
  if (hint < tensors_.size() && tensors_[hint].name == name) return tensors_[hint];
  const auto known = std::ranges::find(tensors_, name, &TensorState::name);
  if (known != tensors_.end()) return *known;
  tensors_.push_back({.name = name});
  return tensors_.back();
}

}  // namespace lockstep::laws
