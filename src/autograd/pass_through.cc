#include "lockstep/autograd/pass_through.h"

#include <array>
#include <utility>
#include <vector>

#include "lockstep/autograd/node.h"

namespace lockstep {
namespace {

// As a node has three edges, the common node is a chain of links: each serves two outputs and runs
// the next one at once.
class Link final : public Node {
 public:
  static constexpr std::size_t kOutputs = 2;
  static constexpr std::size_t kNext = 2;

  explicit Link(std::shared_ptr<PassThroughListener> listener) : listener_(std::move(listener)) {}

  void number() { take_sequence_number(); }

  void put(std::size_t i, Tensor&& grad) { grads_[i] = std::move(grad); }

  bool runs_undefined() const override { return true; }

  void run(Tensor&& /*grad*/) override {
    if (listener_) listener_->on_backward_reached();
    for (std::size_t i = 0; i < kOutputs; ++i) {
      Tensor grad = std::exchange(grads_[i], Tensor());
      if (needs(i) && grad.defined()) send(i, std::move(grad));
    }
  }

 private:
  std::shared_ptr<PassThroughListener> listener_;  // Of the first link alone.
  std::array<Tensor, kOutputs> grads_;
};

// Carries one output's gradient to its link. The edge leads to the first link, which so waits for
// all of them.
class PassThroughNode final : public Node {
 public:
  PassThroughNode(Ref<Link> link, std::size_t place) : link_(std::move(link)), place_(place) {}

  void run(Tensor&& grad) override { link_->put(place_, std::move(grad)); }

 private:
  Ref<Link> link_;
  std::size_t place_;
};

}  // namespace

void pass_through(std::span<Variable* const> outputs,
                  const std::shared_ptr<PassThroughListener>& listener) {
  std::vector<Variable*> kept;
  for (Variable* output : outputs) {
    if (Node::records({output})) kept.push_back(output);
  }
  if (kept.empty()) return;
  Runtime& runtime = kept.front()->runtime();
  const std::size_t n_links = (kept.size() + Link::kOutputs - 1) / Link::kOutputs;
  std::vector<Ref<Link>> links(n_links);
  // From the last to the first: what is numbered last runs first.
  for (std::size_t l = n_links; l-- > 0;) {
    links[l] = Node::make<Link>(runtime, l == 0 ? listener : nullptr);
    links[l]->number();
    if (l + 1 < n_links) links[l]->connect(Link::kNext, *links[l + 1]);
  }
  for (std::size_t i = 0; i < kept.size(); ++i) {
    Variable& output = *kept[i];
    const Ref<Link>& link = links[i / Link::kOutputs];
    link->connect(i % Link::kOutputs, output);
    if (output.is_leaf()) continue;
    Ref<PassThroughNode> node = Node::make<PassThroughNode>(runtime, link, i % Link::kOutputs);
    node->connect(0, *links.front());
    output = Node::attach(output.data().clone(), node);
  }
}

}  // namespace lockstep
