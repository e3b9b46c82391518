#include "lockstep/autograd/checkpoint.h"

#include <algorithm>
#include <fmt/core.h>
#include <string>
#include <utility>

#include "lockstep/autograd/autocast.h"
#include "lockstep/autograd/engine.h"
#include "lockstep/autograd/saved_tensor.h"

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

// Takes what operations save for its lifetime.
class HooksGuard {
 public:
  HooksGuard(Runtime& runtime, SavedTensorHooks& hooks)
      : runtime_(&runtime), previous_(runtime.saved_tensor_hooks()) {
    runtime.set_saved_tensor_hooks(&hooks);
  }

  ~HooksGuard() { runtime_->set_saved_tensor_hooks(previous_); }

  HooksGuard(const HooksGuard&) = delete;
  HooksGuard& operator=(const HooksGuard&) = delete;
  HooksGuard(HooksGuard&&) = delete;
  HooksGuard& operator=(HooksGuard&&) = delete;

 private:
  Runtime* runtime_;
  SavedTensorHooks* previous_;
};

// A segment with what its second run needs.
class Recomputation {
 public:
  Recomputation(Segment segment, StateKeeper keep_state, const AutocastOptions& autocast)
      : segment_(std::move(segment)), keep_state_(std::move(keep_state)), autocast_(autocast) {
    if (keep_state_) restore_ = keep_state_();
  }

  Variable run(std::span<const Variable> inputs) const { return segment_(inputs); }

  /// On new leaves with these values, recorded.
  Variable run_again(Runtime& runtime, std::span<const Variable> leaves) const {
    std::function<void()> restore_now;
    if (keep_state_) {
      restore_now = keep_state_();
      restore_();
    }
    const GradGuard recording(runtime);
    const AutocastGuard autocast(runtime, autocast_);
    Variable out = segment_(leaves);
    if (restore_now) restore_now();
    return out;
  }

 private:
  Segment segment_;
  StateKeeper keep_state_;
  AutocastOptions autocast_;  ///< Of the first run.
  std::function<void()> restore_;
};

class CheckpointNode final : public Node {
 public:
  CheckpointNode(Recomputation segment, std::vector<Variable> inputs)
      : segment_(std::move(segment)), inputs_(std::move(inputs)) {}

  void run(Tensor&& grad) override {
    LOCKSTEP_CHECK(!inputs_.empty(), "a checkpoint was differentiated twice");
    std::vector<Variable> fresh;
    for (const Variable& input : inputs_) {
      fresh.emplace_back(input.data(), input.requires_grad());
    }
    const Variable out = segment_.run_again(runtime(), fresh);
    LOCKSTEP_CHECK(out.requires_grad(), "nothing in a checkpointed segment requires a gradient");
    run_backward(out, std::move(grad));
    for (std::size_t i = 0; i < fresh.size(); ++i) {
      if (needs(i) && fresh[i].grad().defined()) send(i, Tensor(fresh[i].grad()));
    }
  }

  void release_saved() override { inputs_.clear(); }

 private:
  Recomputation segment_;
  std::vector<Variable> inputs_;
};

// What a segment saved, counted in its first run and computed by its second. It holds values of the
// inputs, not the graph that computed them, so that graphs are freed without recursion.
class SavedSegment final : public Counted, public SavedTensorHooks {
 public:
  SavedSegment(Recomputation segment, std::span<const Variable> inputs)
      : segment_(std::move(segment)), runtime_(&inputs.front().runtime()) {
    for (const Variable& input : inputs) {
      inputs_.push_back(input.data());
      requires_grad_.push_back(input.requires_grad());
    }
  }

  Ref<PackedTensor> pack(const Tensor& tensor) override {
    if (again_) {
      values_.push_back(tensor);
      return {};
    }
    shapes_.push_back(tensor.shape());
    return Ref<PackedTensor>(new SavedSlot(*this, shapes_.size() - 1));
  }

  Variable run(std::span<const Variable> inputs) {
    const HooksGuard packing(*runtime_, *this);
    return segment_.run(inputs);
  }

 private:
  class SavedSlot final : public PackedTensor {
   public:
    SavedSlot(SavedSegment& segment, std::size_t index) : segment_(&segment), index_(index) {}

    const Tensor& unpack() override { return segment_->value(index_); }

   private:
    Ref<SavedSegment> segment_;
    std::size_t index_;
  };

  const Tensor& value(std::size_t index) {
    if (!again_) run_again();
    return values_[index];
  }

  void run_again() {
    again_ = true;
    std::vector<Variable> leaves;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      leaves.emplace_back(inputs_[i], requires_grad_[i]);
    }
    {
      const HooksGuard collecting(*runtime_, *this);
      static_cast<void>(segment_.run_again(*runtime_, leaves));
    }
    LOCKSTEP_CHECK(values_.size() == shapes_.size(),
                   "torch.utils.checkpoint: A different number of tensors was saved during the "
                   "original forward and recomputation.\nNumber of tensors saved during forward: " +
                       std::to_string(shapes_.size()) +
                       "\nNumber of tensors saved during recomputation: " +
                       std::to_string(values_.size()) + ".");
    for (std::size_t i = 0; i < values_.size(); ++i) {
      LOCKSTEP_CHECK(values_[i].shape() == shapes_[i],
                     fmt::format("torch.utils.checkpoint: Recomputed values for the following "
                                 "tensors have different metadata than during the forward pass.\n"
                                 "tensor at position {}: saved {}, recomputed {}",
                                 i,
                                 shapes_[i].text(),
                                 values_[i].shape().text()));
    }
  }

  Recomputation segment_;
  Runtime* runtime_;
  std::vector<Tensor> inputs_;
  std::vector<bool> requires_grad_;
  std::vector<Shape> shapes_;   // Of what the first run saved.
  std::vector<Tensor> values_;  // Of the second.
  bool again_ = false;
};

Variable checkpoint_reentrant(Recomputation segment, const std::vector<Variable>& inputs) {
  Runtime& runtime = inputs.front().runtime();
  Tensor out;
  {
    const NoGradGuard silent(runtime);
    out = segment.run(inputs).data();
  }
  const bool recorded = runtime.grad_enabled() &&
                        std::any_of(inputs.begin(), inputs.end(), [](const Variable& input) {
                          return input.requires_grad();
                        });
  if (!recorded) return Node::attach(std::move(out), {});
  Ref<CheckpointNode> node = Node::make<CheckpointNode>(runtime, std::move(segment), inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) node->connect(i, inputs[i]);
  return Node::attach(std::move(out), node);
}

}  // namespace

Variable checkpoint(Segment segment, std::vector<Variable> inputs, CheckpointOptions options) {
  LOCKSTEP_CHECK(
      !inputs.empty() && inputs.size() <= Node::kMaxInputs,
      fmt::format("a checkpoint takes 1 to {} inputs, not {}", Node::kMaxInputs, inputs.size()));
  Recomputation twice(std::move(segment),
                      std::move(options.keep_state),
                      autocast_options(inputs.front().runtime()));
  if (options.use_reentrant) return checkpoint_reentrant(std::move(twice), inputs);
  if (!inputs.front().runtime().grad_enabled()) return twice.run(inputs);
  const Ref<SavedSegment> saved(new SavedSegment(std::move(twice), inputs));
  return saved->run(inputs);
}

}  // namespace lockstep
