#include "lockstep/autograd/engine.h"

#include <fmt/core.h>

#include "lockstep/tensor/contents.h"
#include "lockstep/tensor/in_flight.h"

namespace lockstep {

// Passes are numbered in the sequence of nodes: unique on this rank, and never the 0 of a new node.
GraphTask::GraphTask(Runtime& runtime, bool retain_graph)
    : runtime_(&runtime),
      outer_(runtime.graph_task()),
      depth_(outer_ == nullptr ? 1 : outer_->depth_ + 1),
      outermost_pass_(outer_ == nullptr ? 0 : outer_->outermost_pass_),
      no_grad_(runtime),
      pass_(runtime.next_sequence_number() + 1),
      retain_graph_(retain_graph) {
  LOCKSTEP_CHECK(
      depth_ <= kMaxDepth,
      fmt::format("backward passes are nested too deeply: {} inside each other, at most {}",
                  depth_,
                  kMaxDepth));
  if (outer_ == nullptr) outermost_pass_ = pass_;
  runtime.set_graph_task(this);
}

GraphTask::~GraphTask() {
  runtime_->set_graph_task(outer_);
  if (!borrowed_.empty()) give_back();
  while (first_callback_ != nullptr) {
    runtime_->pool().release(take_callback(), sizeof(QueuedCallback));
  }
}

void GraphTask::run(const Ref<Node>& root, Tensor&& seed) {
  count_contributions(*root);
  root->collected_ = std::move(seed);
  enqueue(*root);
  while (ready_ != nullptr) evaluate(*dequeue());
  run_callbacks();
}

void GraphTask::prepare(Node& node) {
  if (outer_ != nullptr && node.pass_ >= outermost_pass_) {
    borrowed_.push_back({.node = Ref<Node>(&node),
                         .child = node.child_,
                         .sibling = node.sibling_,
                         .collected = std::move(node.collected_),
                         .collected_sparse = std::move(node.collected_sparse_),
                         .pass = node.pass_,
                         .n_open = node.n_open_});
  }
  node.pass_ = pass_;
  node.n_open_ = 0;
  // A pass that ended with an exception may have left something.
  if (node.collected_.defined()) node.collected_ = Tensor();
  if (node.collected_sparse_) node.collected_sparse_ = {};
}

void GraphTask::give_back() {
  for (Borrowed& entry : borrowed_) {
    entry.node->child_ = entry.child;
    entry.node->sibling_ = entry.sibling;
    entry.node->collected_ = std::move(entry.collected);
    entry.node->collected_sparse_ = std::move(entry.collected_sparse);
    entry.node->pass_ = entry.pass;
    entry.node->n_open_ = entry.n_open;
  }
}

void GraphTask::count_contributions(Node& root) {
  prepare(root);
  root.sibling_ = nullptr;
  Node* open = &root;
  while (open != nullptr) {
    const Node* node = std::exchange(open, open->sibling_);
    for (Node* next : node->edges_) {
      if (next == nullptr) continue;
      if (next->pass_ != pass_) {
        prepare(*next);
        next->sibling_ = std::exchange(open, next);
      }
      ++next->n_open_;
    }
  }
}

void GraphTask::deliver(Node& node) {
  Tensor& grad = node.collected_;
  if (grad.defined() || node.is_accumulator() || node.runs_undefined()) node.run(std::move(grad));
  grad = Tensor();
}

namespace {

/// `grad`: what has arrived at the node; undefined where nothing dense did.
void watch_arrival(ExchangeWatch& exchanges, const Node& node, const Tensor& grad, bool outermost) {
  const bool dense = grad.defined();
  if (exchanges.wants(node)) exchanges.on_arrival(node, dense ? known_digest(grad) : 0);
  if (dense && outermost && grad.n_elems() == 1) {
    exchanges.on_slope({.node = &node, .value = grad.item()});
  }
}

}  // namespace

void GraphTask::evaluate(Node& node) {
  ExchangeWatch* const exchanges = runtime_->exchanges();
  if (exchanges != nullptr && exchanges->in_loss()) {
    watch_arrival(*exchanges, node, node.collected_, outer_ == nullptr);
  }
  deliver(node);
  if (!retain_graph_) node.release_saved();
  for (Node* next : node.edges_) {
    if (next == nullptr || --next->n_open_ > 0) continue;
    if (next->is_accumulator()) {
      deliver(*next);
    } else {
      enqueue(*next);
    }
  }
}

// A pairing heap: `child_` is a node's first child, `sibling_` the next child of its parent.
Node* GraphTask::merge(Node* a, Node* b) {
  if (a == nullptr) return b;
  if (b == nullptr) return a;
  if (a->sequence_number_ < b->sequence_number_) std::swap(a, b);
  b->sibling_ = a->child_;
  a->child_ = b;
  return a;
}

void GraphTask::enqueue(Node& node) {
  node.child_ = nullptr;
  node.sibling_ = nullptr;
  ready_ = merge(ready_, &node);
}

// The children of the removed root become one heap: merged in pairs, then the pairs from the right.
Node* GraphTask::dequeue() {
  Node* top = ready_;
  Node* rest = top->child_;
  Node* pairs = nullptr;
  while (rest != nullptr) {
    Node* a = rest;
    Node* b = a->sibling_;
    rest = b == nullptr ? nullptr : b->sibling_;
    Node* pair = merge(a, b);
    pair->sibling_ = std::exchange(pairs, pair);
  }
  ready_ = nullptr;
  while (pairs != nullptr) {
    Node* pair = std::exchange(pairs, pairs->sibling_);
    ready_ = merge(ready_, pair);
  }
  return top;
}

void GraphTask::queue(BackwardCallback& callback) {
  auto* entry = new (runtime_->pool().allocate(sizeof(QueuedCallback)))
      QueuedCallback{.callback = &callback, .next = nullptr};
  if (first_callback_ == nullptr) {
    first_callback_ = entry;
  } else {
    last_callback_->next = entry;
  }
  last_callback_ = entry;
}

GraphTask::QueuedCallback* GraphTask::take_callback() {
  return std::exchange(first_callback_, first_callback_->next);
}

void GraphTask::run_callbacks() {
  while (first_callback_ != nullptr) {
    QueuedCallback* entry = take_callback();
    BackwardCallback* callback = entry->callback;
    runtime_->pool().release(entry, sizeof(QueuedCallback));
    callback->on_backward_end();
  }
}

void run_backward(const Variable& root, Tensor&& seed) {
  LOCKSTEP_CHECK(root.defined() && root.requires_grad() && seed.shape() == root.shape(),
                 fmt::format("a backward pass starts from a variable that requires grad, with its "
                             "shape: {}, seeded with {}",
                             root.defined() ? root.shape().text() : "undefined",
                             seed.shape().text()));
  GraphTask task(root.runtime(), false);
  const VariableState& state = root.state();
  task.run(state.grad_fn ? state.grad_fn : state.accumulator, std::move(seed));
}

void queue_callback(Runtime& runtime, BackwardCallback& callback) {
  LOCKSTEP_CHECK(runtime.graph_task() != nullptr,
                 "a callback can be queued only while a backward pass runs");
  runtime.graph_task()->queue(callback);
}

void queue_outer_callback(Runtime& runtime, BackwardCallback& callback) {
  GraphTask* task = runtime.graph_task();
  LOCKSTEP_CHECK(task != nullptr, "a callback can be queued only while a backward pass runs");
  while (task->outer() != nullptr) task = task->outer();
  task->queue(callback);
}

bool is_nested_backward(Runtime& runtime) {
  return runtime.graph_task() != nullptr && runtime.graph_task()->outer() != nullptr;
}

}  // namespace lockstep
