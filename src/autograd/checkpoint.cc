#include "lockstep/autograd/checkpoint.h"

#include <algorithm>
#include <utility>

#include "lockstep/autograd/engine.h"

namespace lockstep {
namespace {

// Turns gradient recording on for its lifetime: backward passes run without.
class GradGuard {
 public:
  explicit GradGuard(Runtime& runtime) : runtime_(&runtime), previous_(runtime.grad_enabled()) {
    runtime.set_grad_enabled(true);
  }

  ~GradGuard() { runtime_->set_grad_enabled(previous_); }

  GradGuard(const GradGuard&) = delete;
  GradGuard& operator=(const GradGuard&) = delete;
  GradGuard(GradGuard&&) = delete;
  GradGuard& operator=(GradGuard&&) = delete;

 private:
  Runtime* runtime_;
  bool previous_;
};

class CheckpointNode final : public Node {
 public:
  CheckpointNode(Segment segment, std::vector<Variable> inputs)
      : segment_(std::move(segment)), inputs_(std::move(inputs)) {}

  void run(Tensor&& grad) override {
    LOCKSTEP_CHECK(!inputs_.empty(), "a checkpoint was differentiated twice");
    std::vector<Variable> fresh;
    for (const Variable& input : inputs_) {
      fresh.emplace_back(input.data(), input.requires_grad());
    }
    Variable out;
    {
      const GradGuard recording(runtime());
      out = segment_(fresh);
    }
    LOCKSTEP_CHECK(out.requires_grad(), "nothing in a checkpointed segment requires a gradient");
    run_backward(out, std::move(grad));
    for (std::size_t i = 0; i < fresh.size(); ++i) {
      if (needs(i) && fresh[i].grad().defined()) send(i, Tensor(fresh[i].grad()));
    }
  }

  void release_saved() override { inputs_.clear(); }

 private:
  Segment segment_;
  std::vector<Variable> inputs_;
};

}  // namespace

Variable checkpoint(Segment segment, std::vector<Variable> inputs) {
  LOCKSTEP_CHECK(!inputs.empty() && inputs.size() <= Node::kMaxInputs,
                 "a checkpoint takes one to three inputs");
  Runtime& runtime = inputs.front().runtime();
  Tensor out;
  {
    const NoGradGuard silent(runtime);
    out = segment(inputs).data();
  }
  const bool recorded = runtime.grad_enabled() &&
                        std::any_of(inputs.begin(), inputs.end(), [](const Variable& input) {
                          return input.requires_grad();
                        });
  if (!recorded) return Node::attach(std::move(out), {});
  Ref<CheckpointNode> node = Node::make<CheckpointNode>(runtime, std::move(segment), inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) node->connect(i, inputs[i]);
  return Node::attach(std::move(out), std::move(node));
}

}  // namespace lockstep
