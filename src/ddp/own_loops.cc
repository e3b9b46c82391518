#include "lockstep/ddp/own_loops.h"

#include <algorithm>
#include <string>
#include <utility>

#include "lockstep/autograd/engine.h"
#include "lockstep/autograd/listed_module.h"
#include "lockstep/ddp/wrapper_trace.h"
#include "lockstep/reducer/gradient_trace.h"

namespace lockstep {

namespace {

constexpr std::size_t kMostSent = 1U << 16U;

WrappedState state_of(std::span<const NamedVariable> parameters) {
  WrappedState state;
  state.reduced = state.replicated = state.left_alone = parameters;
  return state;
}

/// Parameters that are trained and that no wrapper has, as a step has called them.
std::vector<NamedVariable> free_of(std::span<const Variable> parameters, const NameTable& names) {
  const std::vector<std::string> places = places_of(parameters);
  std::vector<NamedVariable> free;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const VariableState& state = parameters[i].state();
    if (!parameters[i].requires_grad() || state.wrapper >= 0) continue;
    const bool named = state.name != kNoName;
    free.push_back({named ? std::string(names.text(state.name)) : places[i], parameters[i]});
  }
  return free;
}

}  // namespace

/// The parameters of one optimizer.
class OwnLoops::Loop final : public GradHook, public BackwardCallback, public StateSource {
 public:
  Loop(Runtime& runtime, std::vector<NamedVariable> parameters, std::int32_t n_ranks)
      : runtime_(&runtime),
        parameters_(std::move(parameters)),
        trace_(runtime, state_of(parameters_)),
        gradients_(runtime, trace_.wrapper(), parameters_) {
    Recorder& recorder = *runtime.recorder();
    recorder.set_source(trace_.wrapper(), this);
    Position& position = recorder.position(trace_.wrapper());
    position.opt = 1;  // The first step is what has shown it.
    position.sync = 0;
    WrapEvent event;
    event.n_ranks = n_ranks;
    event.synchronizes = false;
    trace_.record_wrap(event, BufferPolicy::kLocal);
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      parameters_[i].variable.add_hook(*this, i);
    }
  }

  ~Loop() override {
    for (const NamedVariable& parameter : parameters_) parameter.variable.remove_hook(*this);
  }

  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  Loop(Loop&&) = delete;
  Loop& operator=(Loop&&) = delete;

  void on_sent(std::int64_t n_elems) { n_sent_ += n_elems; }

  /// Whether all of its gradients, or more, were sent since its last step.
  bool is_sent() const {
    std::int64_t n_elems = 0;
    for (const auto& [name, parameter] : parameters_) {
      if (parameter.has_grad()) n_elems += parameter.data().n_elems();
    }
    return n_sent_ >= n_elems;
  }

  bool owns_any_of(std::span<const Variable> parameters) const {
    return std::ranges::any_of(parameters, [this](const Variable& parameter) {
      return parameter.state().wrapper == trace_.wrapper();
    });
  }

  /// Whether a model has not been wrapped that its parameters belong to since.
  bool has_any() const {
    return std::ranges::any_of(parameters_, [this](const NamedVariable& entry) {
      return entry.variable.state().wrapper == trace_.wrapper();
    });
  }

  /// Each step ends with a reduction.
  void step_over() {
    n_sent_ = 0;
    running_ = false;  // An exception may have ended the last backward.
    ++runtime_->recorder()->position(trace_.wrapper()).sync;
  }

  /// Its parameters belong to no wrapper any more, and their end is not looked at.
  void let_go() {
    trace_.end_silently();
    Recorder& recorder = *runtime_->recorder();
    Position& outside = recorder.position(-1);
    outside.opt = std::max(outside.opt, recorder.position(trace_.wrapper()).opt);
    for (const NamedVariable& parameter : parameters_) {
      VariableState& state = parameter.variable.state();
      if (state.wrapper == trace_.wrapper()) state.wrapper = -1;
    }
  }

  void on_grad_increment(std::size_t index, const Tensor& increment) override {
    if (enters()) gradients_.on_increment(index, increment);
  }

  void on_grad_ready(std::size_t /*index*/) override { (void)enters(); }

  void on_backward_end() override {
    running_ = false;
    gradients_.record_local();
    gradients_.record_outcome(false);
  }

  void record_state(StatePoint point) override { trace_.record_state(point); }

  void record_frozen(StatePoint point) override { trace_.record_frozen(point); }

  /// No step is one that a rank takes alone.
  void record_lone(LonePoint /*point*/) override {}

  std::size_t n_parameters() const override { return parameters_.size(); }

  bool is_like(std::span<const NameId> names,
               std::span<const Tensor* const> tensors) const override {
    return trace_.is_like(names, tensors);
  }

  bool is_apart() const override { return false; }

 private:
  // No forward of a wrapper is seen: the first gradient of a backward stands for it.
  bool enters() {
    if (running_) return true;
    if (!has_any()) return false;
    running_ = true;
    queue_outer_callback(*runtime_, *this);
    trace_.begin_forward(false, true);
    trace_.record_forward({.synchronizing = false}, *runtime_);
    return true;
  }

  Runtime* runtime_;
  std::vector<NamedVariable> parameters_;
  WrapperTrace trace_;
  GradientTrace gradients_;
  std::int64_t n_sent_ = 0;
  bool running_ = false;  // A backward has reached it, and has not ended.
};

OwnLoops::OwnLoops(Runtime& runtime, std::int32_t n_ranks) : runtime_(&runtime), n_ranks_(n_ranks) {
  runtime.set_own_reductions(this);
}

OwnLoops::~OwnLoops() { runtime_->set_own_reductions(nullptr); }

void OwnLoops::on_sent(const void* data, std::int64_t n_elems, bool adds) {
  for (const std::unique_ptr<Loop>& loop : loops_) loop->on_sent(n_elems);
  if (any_wrapped()) return;
  if (sent_.size() >= kMostSent) sent_.clear();  // No optimizer steps.
  sent_.push_back({data, n_elems, adds});
}

bool OwnLoops::any_wrapped() const { return runtime_->recorder()->n_wrappers() != n_begun_; }

void OwnLoops::before_step(std::span<const Variable> parameters) {
  if (loops_.empty()) return;
  std::erase_if(loops_, [&](const std::unique_ptr<Loop>& loop) {
    const bool falls_short = loop->owns_any_of(parameters) && !loop->is_sent();
    const bool ends = falls_short || !loop->has_any();
    if (ends) loop->let_go();
    return ends;
  });
}

void OwnLoops::after_step(std::span<const Variable> parameters) {
  for (const std::unique_ptr<Loop>& loop : loops_) {
    if (loop->owns_any_of(parameters)) loop->step_over();
  }
  if (any_wrapped()) return;
  std::vector<NamedVariable> reduced = reduced_of(parameters);
  for (const Variable& parameter : parameters) stepped_.insert(parameter.state().id);
  forget_sent_of(parameters);
  if (reduced.empty()) return;
  ++n_begun_;
  loops_.push_back(std::make_unique<Loop>(*runtime_, std::move(reduced), n_ranks_));
}

bool OwnLoops::is_sent(const Variable& parameter) const {
  const void* const grad = parameter.grad().defined() ? parameter.grad().address() : nullptr;
  return grad != nullptr && std::ranges::any_of(sent_, [&](const Sent& sent) {
           return sent.data == grad && sent.n_elems == parameter.grad().n_elems();
         });
}

bool OwnLoops::are_sent_as_one(std::span<const NamedVariable> parameters) const {
  std::int64_t n_elems = 0;
  for (const NamedVariable& entry : parameters) n_elems += entry.variable.data().n_elems();
  return std::ranges::any_of(
      sent_, [&](const Sent& sent) { return sent.adds && sent.n_elems == n_elems; });
}

// Of steps that were taken before, nothing was reduced. A parameter without a gradient may have one on
// another rank.
std::vector<NamedVariable> OwnLoops::reduced_of(std::span<const Variable> parameters) const {
  const std::vector<NamedVariable> free = free_of(parameters, runtime_->recorder()->names());
  const auto has_stepped = [this](const NamedVariable& entry) {
    return stepped_.contains(entry.variable.state().id);
  };
  if (std::ranges::any_of(free, has_stepped)) return {};
  std::vector<NamedVariable> with_gradient;
  std::vector<NamedVariable> reduced;
  for (const NamedVariable& entry : free) {
    const bool has_grad = entry.variable.has_grad();
    if (has_grad) with_gradient.push_back(entry);
    if (!has_grad || is_sent(entry.variable)) reduced.push_back(entry);
  }
  const std::size_t n_left_out = free.size() - reduced.size();
  const bool none_is_sent = n_left_out == with_gradient.size();
  if (none_is_sent && n_left_out > 0 && are_sent_as_one(with_gradient)) return with_gradient;
  const bool begins = !none_is_sent && 2 * n_left_out < free.size();
  return begins ? reduced : std::vector<NamedVariable>();
}

// What was sent before this step counts for no later one, unless another optimizer's gradients were
// among it.
void OwnLoops::forget_sent_of(std::span<const Variable> parameters) {
  const std::size_t n_before = sent_.size();
  std::erase_if(sent_, [&](const Sent& sent) {
    return std::ranges::any_of(parameters, [&](const Variable& parameter) {
      return parameter.grad().defined() && parameter.grad().address() == sent.data;
    });
  });
  if (sent_.size() == n_before) sent_.clear();
}

}  // namespace lockstep
