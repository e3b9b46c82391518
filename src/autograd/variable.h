// Variables: tensors that remember how they were computed and can be differentiated.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/call_site.h"
#include "lockstep/base/names.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

class Node;
class SparseRows;
class Variable;

/// Notified of one leaf's gradient, after this backward's contribution was accumulated into it.
/// Fires once per leaf and backward, in the order in which gradients become ready.
///
/// Source: PyTorch's post-hook on the gradient accumulator, which DDP's reducer uses.
class GradHook {
 public:
  virtual ~GradHook() = default;
  /// `index` is what the hook was registered with. Undefined gradient = the leaf received none.
  virtual void on_grad_ready(std::size_t index) = 0;

  /// Sees the contribution itself just before it is added to `.grad` (recorders). Default: nothing.
  virtual void on_grad_increment(std::size_t /*index*/, const Tensor& /*increment*/) {}
};

/// What a leaf or an intermediate result carries besides its values. Pooled, counted.
class VariableState final : public Counted {
 public:
  Tensor data;
  Tensor grad;                  ///< Undefined until a backward reaches this leaf.
  Ref<SparseRows> sparse_grad;  ///< A gradient of few rows, instead of `grad`: sparse_rows.h.
  Ref<Node> grad_fn;            ///< What computed it; null for leaves.
  Ref<Node> accumulator;        ///< Leaves that require grad: the node that adds into `grad`.
  std::uint32_t id = 0;         ///< Construction order within the rank.
  NameId name = kNoName;        ///< Qualified name, given by the wrapper: "fc1.weight".
  std::int32_t wrapper = -1;    ///< Index of the wrapper that reduces it, -1 = none.
  bool requires_grad = false;
  bool expects_sparse = false;  ///< An embedding has said that it sends sparse gradients.
  bool optimized = false;       ///< An optimizer has been given it.

  ~VariableState() override;
  VariableState(const VariableState&) = delete;
  VariableState& operator=(const VariableState&) = delete;
  VariableState(VariableState&&) = delete;
  VariableState& operator=(VariableState&&) = delete;

 private:
  friend class Node;
  friend class Variable;
  explicit VariableState(Tensor&& values);
  static Ref<VariableState> make(Tensor&& data);
  void destroy() override;
};

/// A handle to a tensor in the autograd graph. Copies share state, as PyTorch's tensors do.
///
/// Leaves (parameters, inputs) are made from tensors; other variables come from functions.h.
class Variable {
 public:
  Variable() = default;
  /// A leaf. Requires: `data` defined, of floating type if `requires_grad`.
  explicit Variable(Tensor data, bool requires_grad = false);

  bool defined() const { return static_cast<bool>(state_); }

  /// Requires: defined(), as all that follows does.
  VariableState& state() const {
    LOCKSTEP_CHECK(state_,
                   "an undefined variable has no values: it was never assigned, like the bias of a "
                   "layer without one");
    return *state_;
  }

  const Tensor& data() const { return state().data; }

  const Tensor& grad() const { return state().grad; }

  /// Whether there is a gradient, dense or sparse. One leaf never has both.
  bool has_grad() const { return state().grad.defined() || state().sparse_grad; }

  /// Replaces the gradient; an undefined tensor is PyTorch's `p.grad = None`.
  void set_grad(Tensor grad) const;

  bool requires_grad() const { return state().requires_grad; }

  /// Freezes or unfreezes this leaf. Requires: a leaf, of floating type if `on`.
  void set_requires_grad(bool on) const;

  bool is_leaf() const { return !state().grad_fn; }

  Runtime& runtime() const { return state().data.runtime(); }

  const Shape& shape() const { return state().data.shape(); }

  double item() const { return state().data.item(); }

  /// The same values outside the graph.
  Variable detach() const;

  /// Differentiates this scalar with respect to the leaves that require grad, adding into their
  /// `.grad`.
  ///
  /// Requires: one element; the graph was not freed by an earlier backward.
  /// Errors: ContractViolation when it does not require grad or the graph was already freed.
  /// Deterministic: nodes run in descending order of creation (PyTorch's sequence numbers), leaf
  ///     accumulation as soon as a leaf's contributions are complete.
  void backward(bool retain_graph = false, const CallSite& site = CallSite::here()) const;

  /// Registers `hook` on this leaf; it fires after each backward's accumulation, in registration
  /// order.
  /// Requires: a leaf that requires grad. The hook must outlive it or be removed.
  void add_hook(GradHook& hook, std::size_t index) const;
  /// Undoes add_hook. A hook that is not registered is ignored.
  void remove_hook(const GradHook& hook) const;
  /// Whether `hook` is the only one notified of this leaf's gradients.
  bool only_hook_is(const GradHook& hook) const;

  friend bool operator==(const Variable& a, const Variable& b) { return a.state_ == b.state_; }

 private:
  friend class Node;

  explicit Variable(Ref<VariableState> state) : state_(std::move(state)) {}

  void run_backward(bool retain_graph) const;
  /// The node that takes this variable's gradient; null when it requires none.
  Node* gradient_edge() const;
  Ref<VariableState> state_;
};

/// A parameter or buffer with its qualified name ("fc1.weight"), in registration order.
struct NamedVariable {
  std::string name;
  Variable variable;
};

/// Queued during a backward (by a hook), runs once after the whole graph has been processed.
/// Source: PyTorch's Engine::queue_callback, with which DDP finalizes.
class BackwardCallback {
 public:
  virtual ~BackwardCallback() = default;
  /// Called once, outside of the graph, before backward() returns.
  virtual void on_backward_end() = 0;
};

/// Requires: called from inside a backward of `runtime`.
void queue_callback(Runtime& runtime, BackwardCallback& callback);

/// Turns gradient recording off for its lifetime (torch.no_grad).
class NoGradGuard {
 public:
  explicit NoGradGuard(Runtime& runtime) : runtime_(&runtime), previous_(runtime.grad_enabled()) {
    runtime.set_grad_enabled(false);
  }

  ~NoGradGuard() { runtime_->set_grad_enabled(previous_); }

  NoGradGuard(const NoGradGuard&) = delete;
  NoGradGuard& operator=(const NoGradGuard&) = delete;
  NoGradGuard(NoGradGuard&&) = delete;
  NoGradGuard& operator=(NoGradGuard&&) = delete;

 private:
  Runtime* runtime_;
  bool previous_;
};

}  // namespace lockstep
