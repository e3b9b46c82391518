#include "lockstep/autograd/variable.h"

#include <fmt/core.h>
#include <new>

#include "lockstep/autograd/accumulator.h"
#include "lockstep/autograd/engine.h"
#include "lockstep/autograd/graph.h"
#include "lockstep/autograd/sparse_rows.h"
#include "lockstep/autograd/user_call.h"
#include "lockstep/tensor/in_flight.h"

namespace lockstep {
namespace {

Accumulator& accumulator_of(VariableState& state) {
  if (!state.accumulator) {
    state.accumulator = Node::make<Accumulator>(state.data.runtime(), state);
  }
  return static_cast<Accumulator&>(*state.accumulator);
}

/// A backward that nothing surrounds, for those who watch what it asks of exchanges.
class WatchedBackward {
 public:
  explicit WatchedBackward(const Tensor& loss) {
    const Runtime& runtime = loss.runtime();
    ExchangeWatch* const exchanges = runtime.exchanges();
    if (exchanges == nullptr || exchanges->idle() || runtime.graph_task() != nullptr) return;
    exchanges_ = exchanges;
    exchanges_->begin_backward(loss.storage()->origin());
  }

  ~WatchedBackward() {
    if (exchanges_ != nullptr) exchanges_->end_backward();
  }

  /// After the backward, which began at `root`.
  void look_for_factors(Node& root) const {
    if (exchanges_ == nullptr || !exchanges_->in_loss()) return;
    exchanges_->note_scaled([&](const Node& node, double factor) {
      return is_scaled(root, node, factor, exchanges_->slopes());
    });
  }

  WatchedBackward(const WatchedBackward&) = delete;
  WatchedBackward& operator=(const WatchedBackward&) = delete;
  WatchedBackward(WatchedBackward&&) = delete;
  WatchedBackward& operator=(WatchedBackward&&) = delete;

 private:
  ExchangeWatch* exchanges_ = nullptr;
};

}  // namespace

VariableState::VariableState(Tensor&& values) : data(std::move(values)) {}

VariableState::~VariableState() = default;

Ref<VariableState> VariableState::make(Tensor&& data) {
  LOCKSTEP_CHECK(data.defined(), "a variable needs values");
  void* block = data.runtime().pool().allocate(sizeof(VariableState));
  return Ref<VariableState>(new (block) VariableState(std::move(data)));
}

void VariableState::destroy() {
  if (accumulator) static_cast<Accumulator&>(*accumulator).forget_variable();
  Pool& pool = data.runtime().pool();
  this->~VariableState();
  pool.release(this, sizeof(VariableState));
}

Variable::Variable(Tensor data, bool requires_grad) : state_(VariableState::make(std::move(data))) {
  if (requires_grad) set_requires_grad(true);
  state_->id = runtime().next_variable_id();
}

void Variable::set_requires_grad(bool on) const {
  LOCKSTEP_CHECK(
      is_leaf(),
      fmt::format("only leaves can be frozen or unfrozen; {} is the result of an operation",
                  state_->data.text()));
  LOCKSTEP_CHECK(!on || is_floating(state_->data.dtype()),
                 fmt::format("only tensors of floating type can require gradients, not {}",
                             state_->data.text()));
  state_->requires_grad = on;
  // Of what a call has returned, too: the program asks for its gradient, and sends it back itself.
  if (on) {
    Storage& storage = *state_->data.storage();
    storage.set_origin(storage.origin() & Origin::kOwn);
  }
}

void Variable::set_grad(Tensor grad) const {
  state().grad = std::move(grad);
  state().sparse_grad = {};
}

Variable Variable::detach() const { return Variable(data().detached()); }

Node* Variable::gradient_edge() const {
  if (!state().requires_grad) return nullptr;
  return state_->grad_fn ? state_->grad_fn.get() : &accumulator_of(*state_);
}

void Variable::backward(bool retain_graph, const CallSite& site) const {
  if (!defined()) {
    throw ContractViolation(
        "a backward pass starts from one element, such as a loss, not from an undefined variable",
        site);
  }
  user_call(runtime(), site, [&] { run_backward(retain_graph); });
}

void Variable::run_backward(bool retain_graph) const {
  LOCKSTEP_CHECK(state_->data.n_elems() == 1,
                 fmt::format("a backward pass starts from one element, such as a loss, not from {}",
                             state_->data.text()));
  LOCKSTEP_CHECK(
      requires_grad(),
      "this variable does not require grad and has no grad_fn: nothing to differentiate");
  Runtime& rt = runtime();
  rt.host().check_caller();
  const WatchedBackward watched(data());
  {
    GraphTask task(rt, retain_graph);
    task.run(Ref<Node>(gradient_edge()), Tensor::full(rt, shape(), state_->data.dtype(), 1.0));
  }
  watched.look_for_factors(*gradient_edge());
}

void Variable::add_hook(GradHook& hook, std::size_t index) const {
  LOCKSTEP_CHECK(defined() && is_leaf() && requires_grad(),
                 fmt::format("a hook belongs to a leaf that requires grad, which {} is not",
                             defined() ? state_->data.text() : "an undefined variable"));
  accumulator_of(*state_).add_hook(hook, index);
}

bool Variable::only_hook_is(const GradHook& hook) const {
  return state_->accumulator && accumulator_of(*state_).only_hook_is(hook);
}

void Variable::remove_hook(const GradHook& hook) const {
  if (state_->accumulator) accumulator_of(*state_).remove_hook(hook);
}

}  // namespace lockstep
