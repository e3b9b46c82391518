#include "lockstep/autograd/node.h"

#include <algorithm>
#include <fmt/core.h>

#include "lockstep/tensor/contents.h"
#include "lockstep/tensor/in_flight.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep {

bool Node::records(std::initializer_list<const Variable*> inputs) {
  for (const Variable* input : inputs) {
    if (input->defined() && input->requires_grad()) return input->runtime().grad_enabled();
  }
  return false;
}

namespace {

/// A graph's node computed these values.
void mark_computed(Storage& storage, const Node& node) {
  const std::uint32_t origin = storage.origin();
  if ((origin & Origin::kLeaf) != 0) return;
  storage.add_origin(Origin::kGraph);
  const bool is_new = Origin::direct(origin) != 0 && (origin & Origin::kGraph) == 0;
  if (is_new && storage.runtime().exchanges() != nullptr) {
    storage.runtime().exchanges()->on_function(origin, node);
  }
}

}  // namespace

Variable Node::attach(Tensor&& out, Ref<Node> node) {
  if (node) {
    mark_computed(*out.storage(), *node);
    node->watch_meeting(out);
  }
  Ref<VariableState> state = VariableState::make(std::move(out));
  if (node) {
    node->sequence_number_ = node->runtime_->next_sequence_number();
    state->grad_fn = std::move(node);
    state->requires_grad = true;
  }
  return Variable(std::move(state));
}

void Node::watch_meeting(const Tensor& out) const {
  ExchangeWatch* const exchanges = runtime_->exchanges();
  if (exchanges == nullptr || exchanges->idle()) return;
  const std::uint32_t origin = out.storage()->origin();
  if (!exchanges->may_meet(origin)) return;
  for (std::uint32_t slot = 0; slot < Origin::kSlots; ++slot) {
    const Node* const sender = exchanges->sender(slot, origin);
    if (sender == nullptr || std::find(edges_.begin(), edges_.end(), sender) == edges_.end())
      continue;
    exchanges->on_meeting(slot, *this, known_digest(out));
  }
}

void Node::connect(std::size_t i, const Variable& input) {
  if (!input.defined()) return;
  Node* const edge = input.gradient_edge();
  if (edge == nullptr) return;
  LOCKSTEP_CHECK(&input.runtime() == runtime_,
                 fmt::format("an operation mixes {} with a tensor of another rank: each rank "
                             "computes with its own",
                             input.data().text()));
  edges_[i] = edge;
  edge->retain();
  Storage& storage = *input.data().storage();
  if (edges_[i]->is_accumulator()) storage.add_origin(Origin::kLeaf);
  ExchangeWatch* const exchanges = runtime_->exchanges();
  if (exchanges != nullptr && !exchanges->idle()) exchanges->on_edge(storage, *edges_[i]);
}

void Node::connect(std::size_t i, Node& target) {
  edges_[i] = &target;
  target.retain();
}

void Node::send(std::size_t i, Tensor&& grad) {
  Tensor& sum = edges_[i]->collected_;
  if (!sum.defined()) {
    sum = std::move(grad);
    if (edges_[i]->collected_sparse_) edges_[i]->fold_sparse();
  } else if (grad.defined()) {
    const Tensor out = writable_like(sum);
    kernels().add(out, sum, grad);
    sum = out;
  }
}

void Node::send_sparse(std::size_t i, const Ref<SparseRows>& rows) {
  Node& target = *edges_[i];
  LOCKSTEP_CHECK(target.is_accumulator(), "a sparse gradient needs a leaf to end in");
  Ref<SparseRows>& sum = target.collected_sparse_;
  sum = sum ? merge(*sum, *rows) : rows;
  if (target.collected_.defined()) target.fold_sparse();
}

void Node::fold_sparse() {
  const Ref<SparseRows> rows = take_sparse();
  if (!collected_.defined()) {
    collected_sparse_ = rows;
    return;
  }
  if (collected_.storage()->use_count() > 1) collected_ = collected_.clone();
  add_rows(collected_, *rows);
}

// The last owner of a node may be the only owner of the whole graph it reaches, one node for each
// operation of a deep model. Such nodes go to a list instead of the call stack.
void Node::destroy() {
  Node* dying = this;
  sibling_ = nullptr;
  while (dying != nullptr) {
    Node* node = std::exchange(dying, dying->sibling_);
    for (Node* next : node->edges_) {
      if (next == nullptr) continue;
      if (next->use_count() > 1) {
        next->release();
      } else {
        next->sibling_ = std::exchange(dying, next);
      }
    }
    Pool& pool = node->runtime_->pool();
    const std::size_t n_bytes = node->n_bytes_;
    node->~Node();
    pool.release(node, n_bytes);
  }
}

Tensor writable_like(const Tensor& grad) {
  if (grad.storage()->use_count() == 1) return grad;
  return Tensor::empty(grad.runtime(), grad.shape(), grad.dtype());
}

}  // namespace lockstep
