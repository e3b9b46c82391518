// Bugs of state: a rank's tensors are written or scaled without the wrapper's knowledge.
#include <cmath>

#include "lockstep/base/check.h"
#include "lockstep/harness/bugs/bug.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep {
namespace {

std::vector<Variable> tensors_named(nn::Module& model, const std::string& name) {
  std::vector<Variable> found;
  for (const auto& list : {model.named_parameters(), model.named_buffers()}) {
    for (const NamedVariable& named : list) {
      if (name.empty() || named.name == name) found.push_back(named.variable);
    }
  }
  return found;
}

class WriteTensor final : public PlacedBug {
 public:
  WriteTensor(const bug::WriteTensor& what, const BugPlace& at) : PlacedBug(at), what_(what) {}

 private:
  void strike(LoopState& state) override {
    for (const Variable& variable : tensors_named(*state.model, what_.tensor)) {
      const Tensor& all = what_.part == TensorSide::kGrad ? variable.grad() : variable.data();
      if (!all.defined()) continue;  // A gradient that does not exist cannot be overwritten.
      if (what_.element)
        LOCKSTEP_CHECK(*what_.element < all.n_elems(),
                       "no element " + std::to_string(*what_.element) + " in " + all.text());
      const Tensor hit = what_.element ? all.slice(*what_.element, Shape{1}) : all;
      hit.runtime().kernels().fill(hit, what_.value);
      hit.storage()->bump_version();
    }
  }

  bug::WriteTensor what_;
};

/// Scales gradients. At the backward's `before` side it scales the local contribution just before
/// the wrapper's own hook takes it, otherwise what the reduction has left in `.grad`.
class ScaleGradient final : public LoopHook, private GradHook {
 public:
  ScaleGradient(const bug::ScaleGradient& what, const BugPlace& at)
      : what_(what), at_(at), local_(at.event == LoopPoint::kBackward && !at.after) {}

  ScaleGradient(const ScaleGradient&) = delete;
  ScaleGradient& operator=(const ScaleGradient&) = delete;
  ScaleGradient(ScaleGradient&&) = delete;
  ScaleGradient& operator=(ScaleGradient&&) = delete;
  ~ScaleGradient() override = default;

  void before(LoopPoint point, LoopState& state) override {
    // Hooks fire in the order of registration: only one that is older than the wrapper comes before
    // it.
    if (local_ && point == LoopPoint::kWrap) {
      tensors_ = tensors_named(*state.model, what_.tensor);
      for (std::size_t i = 0; i < tensors_.size(); ++i) {
        if (tensors_[i].requires_grad()) tensors_[i].add_hook(*this, i);
      }
    }
    if (local_ && point == LoopPoint::kBackward) active_ = here(state);
    if (!local_ && point == LoopPoint::kStep && at_.event == LoopPoint::kStep) scale_all(state);
  }

  void after(LoopPoint point, LoopState& state) override {
    if (point != LoopPoint::kBackward) return;
    active_ = false;
    if (!local_ && at_.event == LoopPoint::kBackward) scale_all(state);
  }

 private:
  bool here(const LoopState& state) const { return !at_.step || *at_.step == state.step; }

  void scale_all(LoopState& state) const {
    if (!here(state)) return;
    for (const Variable& variable : tensors_named(*state.model, what_.tensor))
      scale(variable.grad());
  }

  void scale(const Tensor& grad) const {
    if (!grad.defined()) return;
    grad.runtime().kernels().scale(grad, grad, what_.factor);
    grad.storage()->bump_version();
  }

  void on_grad_ready(std::size_t index) override {
    if (active_) scale(tensors_[index].grad());
  }

  bug::ScaleGradient what_;
  BugPlace at_;
  bool local_;
  bool active_ = false;
  std::vector<Variable> tensors_;
};

/// Writes zeros where a parameter got no gradient: momentum and weight decay then move what was not
/// used.
class ZeroMissingGradients final : public PlacedBug {
 public:
  ZeroMissingGradients(const bug::ZeroMissingGradients& what, const BugPlace& at)
      : PlacedBug(at), what_(what) {}

 private:
  void strike(LoopState& state) override {
    for (const Variable& variable : tensors_named(*state.model, what_.tensor)) {
      if (!variable.requires_grad() || variable.grad().defined()) continue;
      const Tensor& data = variable.data();
      variable.set_grad(Tensor::zeros(data.runtime(), data.shape(), data.dtype()));
    }
  }

  bug::ZeroMissingGradients what_;
};

/// Flips a bit of what one backward computes for a parameter, before anything has read it.
class FlipBit final : public LoopHook, private GradHook {
 public:
  FlipBit(const bug::FlipBit& what, const BugPlace& at) : what_(what), at_(at) {}

  FlipBit(const FlipBit&) = delete;
  FlipBit& operator=(const FlipBit&) = delete;
  FlipBit(FlipBit&&) = delete;
  FlipBit& operator=(FlipBit&&) = delete;
  ~FlipBit() override = default;

  void before(LoopPoint point, LoopState& state) override {
    // A hook that is older than the wrapper's comes before it.
    if (point == LoopPoint::kWrap) watch(*state.model);
    if (point != LoopPoint::kBackward) return;
    active_ = (!at_.step || *at_.step == state.step) && (!at_.micro || *at_.micro == state.micro);
  }

  void after(LoopPoint point, LoopState& /*state*/) override {
    if (point == LoopPoint::kBackward) active_ = false;
  }

 private:
  void watch(nn::Module& model) {
    const std::vector<Variable> found = tensors_named(model, what_.tensor);
    LOCKSTEP_CHECK(!found.empty(), "the model has no parameter '" + what_.tensor + "'");
    for (const Variable& variable : found) {
      if (variable.requires_grad()) variable.add_hook(*this, 0);
    }
  }

  void on_grad_increment(std::size_t /*index*/, const Tensor& increment) override {
    if (!active_ || !increment.defined() || increment.n_elems() == 0) return;
    const std::int64_t bits = 8 * size_of(increment.dtype());
    LOCKSTEP_CHECK(what_.element < increment.n_elems() && what_.bit < bits,
                   "no bit " + std::to_string(what_.bit) + " of element " +
                       std::to_string(what_.element) + " in " + increment.text());
    const std::int64_t bit = what_.element * bits + what_.bit;  // Little-endian.
    auto* byte = static_cast<std::uint8_t*>(increment.raw()) + bit / 8;
    *byte = static_cast<std::uint8_t>(*byte ^ (1U << (bit % 8)));
  }

  void on_grad_ready(std::size_t /*index*/) override {}

  bug::FlipBit what_;
  BugPlace at_;
  bool active_ = false;
};

}  // namespace

std::unique_ptr<LoopHook> make_bug(const bug::ZeroMissingGradients& what, const BugPlace& at) {
  return std::make_unique<ZeroMissingGradients>(what, at);
}

std::unique_ptr<LoopHook> make_bug(const bug::FlipBit& what, const BugPlace& at) {
  return std::make_unique<FlipBit>(what, at);
}

std::unique_ptr<LoopHook> make_bug(const bug::WriteTensor& what, const BugPlace& at) {
  return std::make_unique<WriteTensor>(what, at);
}

std::unique_ptr<LoopHook> make_bug(const bug::ScaleGradient& what, const BugPlace& at) {
  return std::make_unique<ScaleGradient>(what, at);
}

}  // namespace lockstep
