#include "lockstep/autograd/graph.h"

#include <cmath>
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
    visit(root, [](const Node&, const Node&) { return false; });
  }

  /// The same, except for what lies beyond edges that `cuts`.
  template <typename Cuts>
  void visit(Node* root, const Cuts& cuts) {
    push(root);
    while (open_ != nullptr) {
      const Node* node = std::exchange(open_, open_->sibling_);
      for (Node* next : node->edges_) {
        if (next != nullptr && !cuts(*node, *next)) push(next);
      }
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

bool is_scaled(Node& root,
               const Node& node,
               double factor,
               std::span<const ExchangeWatch::Slope> slopes) {
  constexpr double kRoundings = 1e-5;  // Of a product or two in single precision.
  const auto slope_of = [&](const Node& one) {
    for (const ExchangeWatch::Slope& slope : slopes) {
      if (slope.node == &one) return slope.value;
    }
    return 0.0;
  };
  const double seed = slope_of(root);
  const auto is_factor = [&](double after, double before) {
    return before != 0.0 && std::abs(after / before / factor - 1.0) < kRoundings;
  };
  GraphSearch search(root.runtime());
  search.visit(&root, [&](const Node& before, const Node& after) {
    const double slope = slope_of(after);
    return is_factor(slope, seed) || is_factor(slope, slope_of(before));
  });
  return !search.visited(&node);
}

}  // namespace lockstep
