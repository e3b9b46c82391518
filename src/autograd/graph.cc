#include "lockstep/autograd/graph.h"

#include <fmt/core.h>

#include "lockstep/autograd/node.h"

namespace lockstep {

// Marks nodes with its own number in the field that backward passes use.
class GraphSearch {
 public:
  explicit GraphSearch(Runtime& runtime) : mark_(runtime.next_sequence_number() + 1) {
    LOCKSTEP_CHECK(runtime.graph_task() == nullptr, "a graph is searched between backward passes");
  }

  void visit(Node* root) {
    push(root);
    while (open_ != nullptr) {
      const Node* node = std::exchange(open_, open_->sibling_);
      for (Node* next : node->edges_) push(next);
    }
  }

  bool visited(const Node* node) const { return node != nullptr && node->pass_ == mark_; }

 private:
  void push(Node* node) {
    if (node == nullptr || node->pass_ == mark_) return;
    node->pass_ = mark_;
    node->sibling_ = std::exchange(open_, node);
  }

  std::uint64_t mark_;
  Node* open_ = nullptr;
};

void find_reachable(std::span<const Variable> roots,
                    std::span<const Variable> leaves,
                    std::span<std::uint8_t> reached) {
  LOCKSTEP_CHECK(reached.size() == leaves.size(),
                 fmt::format("{} marks for {} leaves", reached.size(), leaves.size()));
  if (leaves.empty()) return;
  GraphSearch search(leaves[0].runtime());
  for (const Variable& root : roots) {
    const VariableState& state = root.state();
    search.visit(state.grad_fn ? state.grad_fn.get() : state.accumulator.get());
  }
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    reached[i] = search.visited(leaves[i].state().accumulator.get()) ? 1 : 0;
  }
}

}  // namespace lockstep
