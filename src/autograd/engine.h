// One backward pass: which node runs next, and what runs after the last one.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/autograd/node.h"

namespace lockstep {

/// A running backward pass. Lives on the stack of Variable::backward and is known to the runtime
/// while it runs, so that hooks can queue callbacks.
///
/// Order: a node runs once all contributions to it have arrived; of the nodes that may run, the one
/// created last. Accumulators run at once, in the order of their consumer's edges. Hooks and
/// callbacks may throw: the pass ends, the runtime is ready for the next one.
///
/// Passes nest: a node or hook of one may run another (checkpointing does). The inner pass is
/// complete, callbacks included, before the outer one continues; what the outer pass knows of nodes
/// that both visit is put aside meanwhile. Callbacks belong to the innermost pass.
///
/// Requires: fewer than kMaxDepth passes inside each other.
/// Deterministic: a function of the graph alone.
/// Source: torch::autograd::Engine with its ReadyQueue, one thread.
class GraphTask {
 public:
  static constexpr std::int32_t kMaxDepth = 60;

  GraphTask(Runtime& runtime, bool retain_graph);
  ~GraphTask();
  GraphTask(const GraphTask&) = delete;
  GraphTask& operator=(const GraphTask&) = delete;
  GraphTask(GraphTask&&) = delete;
  GraphTask& operator=(GraphTask&&) = delete;

  /// Runs the pass from `root`, whose output has the gradient `seed`, then the callbacks.
  void run(const Ref<Node>& root, Tensor&& seed);
  void queue(BackwardCallback& callback);

  /// The pass inside which this one runs; null for the outermost.
  GraphTask* outer() const { return outer_; }

 private:
  // What an outer pass keeps in a node that this pass visits too.
  struct Borrowed {
    Ref<Node> node;
    Node* child = nullptr;
    Node* sibling = nullptr;
    Tensor collected;
    Ref<SparseRows> collected_sparse;
    std::uint64_t pass = 0;
    std::uint32_t n_open = 0;
  };

  struct QueuedCallback {
    BackwardCallback* callback;
    QueuedCallback* next;
  };

  void prepare(Node& node);
  void give_back();
  void count_contributions(Node& root);
  static void deliver(Node& node);
  void evaluate(Node& node);
  static Node* merge(Node* a, Node* b);
  void enqueue(Node& node);
  Node* dequeue();
  void run_callbacks();
  QueuedCallback* take_callback();

  Runtime* runtime_;
  GraphTask* outer_;
  std::int32_t depth_;
  std::uint64_t outermost_pass_;  ///< Passes from this number on may still be running.
  std::vector<Borrowed> borrowed_;
  NoGradGuard no_grad_;
  std::uint64_t pass_;
  bool retain_graph_;
  Node* ready_ = nullptr;  ///< Root of a pairing heap threaded through the nodes.
  QueuedCallback* first_callback_ = nullptr;
  QueuedCallback* last_callback_ = nullptr;
};

/// Queues for the end of the outermost pass, after everything nested in it; queue_callback queues
/// for the end of the innermost one.
/// Requires: called from inside a backward of `runtime`.
void queue_outer_callback(Runtime& runtime, BackwardCallback& callback);

/// Whether the pass that runs, if any, is nested in another one.
bool is_nested_backward(Runtime& runtime);

/// Runs a pass from `root`, which need not be a scalar, with `seed` as its gradient.
/// Requires: `root` requires grad, seed has its shape. May be called inside another pass.
void run_backward(const Variable& root, Tensor&& seed);

}  // namespace lockstep
