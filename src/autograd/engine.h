// One backward pass: which node runs next, and what runs after the last one.
#pragma once

#include <cstdint>

#include "lockstep/autograd/node.h"

namespace lockstep {

/// A running backward pass. Lives on the stack of Variable::backward and is known to the runtime
/// while it runs, so that hooks can queue callbacks.
///
/// Order: a node runs once all contributions to it have arrived; of the nodes that may run, the one
/// created last. Accumulators run at once, in the order of their consumer's edges. Hooks and
/// callbacks may throw: the pass ends, the runtime is ready for the next one.
///
/// Requires:      no other pass runs on this runtime (a backward inside a hook is refused).
/// Deterministic: a function of the graph alone.
/// Source:        torch::autograd::Engine with its ReadyQueue, one thread.
class GraphTask {
 public:
  GraphTask(Runtime& runtime, bool retain_graph);
  ~GraphTask();
  GraphTask(const GraphTask&) = delete;
  GraphTask& operator=(const GraphTask&) = delete;
  GraphTask(GraphTask&&) = delete;
  GraphTask& operator=(GraphTask&&) = delete;

  /// Runs the pass from `root`, whose output has the gradient `seed`, then the callbacks.
  void run(const Ref<Node>& root, Tensor&& seed);
  void queue(BackwardCallback& callback);

 private:
  struct QueuedCallback {
    BackwardCallback* callback;
    QueuedCallback* next;
  };

  void count_contributions(Node& root);
  static void deliver(Node& node);
  void evaluate(Node& node);
  static Node* merge(Node* a, Node* b);
  void enqueue(Node& node);
  Node* dequeue();
  void run_callbacks();
  QueuedCallback* take_callback();

  Runtime* runtime_;
  NoGradGuard no_grad_;
  std::uint64_t pass_;
  bool retain_graph_;
  Node* ready_ = nullptr;  ///< Root of a pairing heap threaded through the nodes.
  QueuedCallback* first_callback_ = nullptr;
  QueuedCallback* last_callback_ = nullptr;
};

}  // namespace lockstep
