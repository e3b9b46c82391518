// Where the backward pass ends: the node that adds into a leaf's gradient.
#pragma once

#include <memory_resource>
#include <vector>

#include "lockstep/autograd/node.h"

namespace lockstep {

/// Adds one backward's complete contribution into a leaf's `.grad` and calls its hooks. Sparse
/// contributions (of embeddings) become `sparse_grad`, unless dense ones make the sum dense; hooks
/// are shown them as dense tensors, and only where a recorder asks.
///
/// An undefined `.grad` takes over the contribution (or a copy, when its memory is shared): nothing
/// is added to zero, so the sign of -0 survives. A defined one is added to in place, so that views
/// into a reducer's bucket stay views.
///
/// Source: torch::autograd::AccumulateGrad.
class Accumulator final : public Node {
 public:
  explicit Accumulator(VariableState& variable)
      : Node(kAccumulator), variable_(&variable), hooks_(&variable.data.runtime().pool()) {}

  void run(Tensor&& grad) override;

  void add_hook(GradHook& hook, std::size_t index) { hooks_.push_back({&hook, index}); }

  void remove_hook(const GradHook& hook);

  bool only_hook_is(const GradHook& hook) const {
    return hooks_.size() == 1 && hooks_.front().hook == &hook;
  }

  /// The leaf died before the graph that would have fed it.
  void forget_variable() { variable_ = nullptr; }

 private:
  struct Registration {
    GradHook* hook;
    std::size_t index;
  };

  void announce(const Tensor& increment) const;
  void accumulate(Tensor&& increment) const;

  VariableState* variable_;  ///< Owns this node, not vice versa.
  std::pmr::vector<Registration> hooks_;
};

}  // namespace lockstep
