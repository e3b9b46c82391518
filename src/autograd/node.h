// The recorded graph: one node an operation, its edges and its place in a backward pass inside it.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <new>
#include <utility>

#include "lockstep/autograd/sparse_rows.h"
#include "lockstep/autograd/variable.h"

namespace lockstep {

/// One differentiable operation with one output, or the accumulator of a leaf.
///
/// Nodes are pooled and counted without atomics; everything a backward pass needs to know about a
/// node (open dependencies, the gradient collected so far, its place in the queue) lives in the
/// node, so that a pass allocates nothing but gradients.
///
/// Source: torch::autograd::Node. A departure: one output a node, at most three inputs.
class Node : public Counted {
 public:
  static constexpr std::size_t kMaxInputs = 3;

  ~Node() override = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  Node(Node&&) = delete;
  Node& operator=(Node&&) = delete;

  /// A pooled node of type N.
  /// Requires: N derives from Node alone and its constructor does not throw.
  template <typename N, typename... Args>
  static Ref<N> make(Runtime& runtime, Args&&... args) {
    N* node = new (runtime.pool().allocate(sizeof(N))) N(std::forward<Args>(args)...);
    node->runtime_ = &runtime;
    node->n_bytes_ = sizeof(N);
    return Ref<N>(node);
  }

  /// Whether an operation on these inputs has to be recorded.
  static bool records(std::initializer_list<const Variable*> inputs);
  /// The variable an operation returns. Null `node`: the operation was not recorded.
  static Variable attach(Tensor&& out, Ref<Node> node);

  /// Makes `input` the target of edge `i`; an input that requires no gradient leaves it empty.
  void connect(std::size_t i, const Variable& input);
  /// Makes `target` itself the target of edge `i`.
  void connect(std::size_t i, Node& target);

  Runtime& runtime() const { return *runtime_; }

  /// Order of creation among the operations of this rank; accumulators come before all of them.
  std::uint64_t sequence_number() const { return sequence_number_; }

  bool is_accumulator() const { return sequence_number_ == kAccumulator; }

  /// Turns the output's gradient into the inputs' and sends them along the edges that need one.
  /// `grad` is undefined only for accumulators: a leaf whose contributions were all undefined.
  virtual void run(Tensor&& grad) = 0;

  /// Whether run() is called although no gradient arrived: nodes that collect gradients of their
  /// own, or pass on that there was none.
  virtual bool runs_undefined() const { return false; }

  /// Drops what the forward pass saved; a second backward through this node then fails clearly.
  virtual void release_saved() {}

 protected:
  static constexpr std::uint64_t kAccumulator = std::numeric_limits<std::uint64_t>::max();

  Node() = default;

  explicit Node(std::uint64_t sequence_number) : sequence_number_(sequence_number) {}

  void destroy() override;

  /// Takes the next place in the order of creation: for nodes that belong to no variable.
  void take_sequence_number() { sequence_number_ = runtime_->next_sequence_number(); }

  bool needs(std::size_t i) const { return edges_[i] != nullptr; }

  /// Adds `grad` to what edge `i`'s target has collected. Requires: needs(i).
  void send(std::size_t i, Tensor&& grad);
  /// The same for a sparse gradient; once something dense has arrived, the sum is dense.
  /// Requires: needs(i), and that the target is a leaf: no operation takes a sparse gradient.
  void send_sparse(std::size_t i, const Ref<SparseRows>& rows);

  /// The sum of this pass's contributions while all of them are sparse; null from then on.
  Ref<SparseRows> take_sparse() { return std::move(collected_sparse_); }

  Kernels& kernels() const { return runtime_->kernels(); }

 private:
  friend class GraphTask;
  friend class GraphSearch;

  /// Notifies what watches exchanges if this node computed `out` from the constant that a collective
  /// returned and from what was sent.
  void watch_meeting(const Tensor& out) const;

  /// Adds the sparse sum into the dense one, if there is a dense one.
  void fold_sparse();

  Runtime* runtime_ = nullptr;
  std::uint64_t sequence_number_ = 0;
  std::uint64_t pass_ = 0;  ///< The backward pass (or search) that prepared the fields below.
  std::uint32_t n_bytes_ = 0;
  std::uint32_t n_open_ = 0;               ///< Contributions still to come in this pass.
  std::array<Node*, kMaxInputs> edges_{};  ///< Counted by hand, see destroy().
  Node* child_ = nullptr;                  ///< Links of whatever list or heap the node is in.
  Node* sibling_ = nullptr;
  Tensor collected_;                  ///< Sum of the contributions that have arrived in this pass,
  Ref<SparseRows> collected_sparse_;  ///< or this, if all of them are sparse.
};

/// `grad` itself when no other handle shares its memory, else new memory of its shape: where an
/// element-wise backward writes its result.
Tensor writable_like(const Tensor& grad);

}  // namespace lockstep
