#include "lockstep/ddp/own_loops.h"

#include <algorithm>
#include <string>
#include <utility>

#include "lockstep/autograd/engine.h"
#include "lockstep/autograd/listed_module.h"
#include "lockstep/autograd/sparse_rows.h"
#include "lockstep/ddp/packed_gradients.h"
#include "lockstep/ddp/wrapper_trace.h"
#include "lockstep/reducer/gradient_trace.h"

namespace lockstep {

namespace {

constexpr std::size_t kMostSent = 1U << 16U;

WrappedState state_of(std::span<const NamedVariable> parameters,
                      std::span<const NamedVariable> buffers) {
  WrappedState state;
  state.reduced = state.replicated = state.left_alone = parameters;
  state.buffers = buffers;
  return state;
}

/// Those of no wrapper.
std::vector<NamedVariable> buffers_of(std::span<const NamedVariable> parameters) {
  std::vector<Variable> variables;
  for (const NamedVariable& entry : parameters) variables.push_back(entry.variable);
  std::vector<NamedVariable> buffers = buffers_beside(variables);
  std::erase_if(buffers,
                [](const NamedVariable& entry) { return entry.variable.state().wrapper >= 0; });
  return buffers;
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

std::int64_t n_elements_of(std::span<const NamedVariable> parameters) {
  std::int64_t n = 0;
  for (const NamedVariable& entry : parameters) n += entry.variable.data().n_elems();
  return n;
}

/// After the parameters from `first` on that are as large as a buffer; `first`, if none are.
std::size_t end_of_part(std::span<const std::int64_t> sizes,
                        std::size_t first,
                        std::int64_t n_elems) {
  std::size_t end = first;
  while (n_elems > 0 && end < sizes.size()) n_elems -= sizes[end++];
  return n_elems == 0 ? end : first;
}

bool is_free_of_optimizers(const Variable& parameter) {
  const VariableState& state = parameter.state();
  return parameter.requires_grad() && state.wrapper < 0 && !state.optimized;
}

}  // namespace

/// The parameters of one optimizer, or of a model whose parameters the ranks' optimizers share out.
class OwnLoops::Loop final : public GradHook, public BackwardCallback, public StateSource {
 public:
  struct Reduced {
    std::vector<NamedVariable> parameters;
    bool shared_out;
    std::int32_t n_ranks;
  };

  Loop(Runtime& runtime, Reduced reduced)
      : runtime_(&runtime),
        parameters_(std::move(reduced.parameters)),
        buffers_(buffers_of(parameters_)),
        trace_(runtime, state_of(parameters_, buffers_)),
        gradients_(runtime, trace_.wrapper(), parameters_),
        shared_out_(reduced.shared_out),
        n_ranks_(reduced.n_ranks) {
    Recorder& recorder = *runtime.recorder();
    recorder.set_source(trace_.wrapper(), this);
    Position& position = recorder.position(trace_.wrapper());
    position.opt = 1;  // The first step is what has shown it.
    position.sync = 0;
    WrapEvent event;
    event.n_ranks = reduced.n_ranks;
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

  void on_sent(const Sent& sent) {
    n_sent_ += sent.n_elems;
    packed_.on_sent(parameters_, sent);
  }

  void on_received(const Sent& received) { packed_.on_received(received); }

  /// A step of its parameters comes: says what it has found of what was taken out of one buffer.
  void before_step() {
    Recorder& recorder = *runtime_->recorder();
    const std::optional<std::string> found = packed_.on_step(parameters_, n_ranks_);
    if (!found) return;
    recorder.record(
        LogEvent{.text = recorder.names().intern(*found), .kind = LogKind::kTakenElsewhere},
        trace_.wrapper());
  }

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

  /// What belongs to no wrapper, such as the program's own calls, is at the loop's step, too.
  void count_outside() const {
    Recorder& recorder = *runtime_->recorder();
    Position& outside = recorder.position(-1);
    outside.opt = std::max(outside.opt, recorder.position(trace_.wrapper()).opt);
  }

  /// Its parameters belong to no wrapper any more, and their end is not looked at.
  void let_go() {
    trace_.end_silently();
    count_outside();
    for (const NamedVariable& parameter : parameters_) {
      VariableState& state = parameter.variable.state();
      if (state.wrapper == trace_.wrapper()) state.wrapper = -1;
    }
    for (const NamedVariable& buffer : buffers_) {
      VariableState& state = buffer.variable.state();
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

  bool record_used() override {
    if (!shared_out_) return false;
    Recorder& recorder = *runtime_->recorder();
    std::vector<NameId> names;
    WholeGradients used;
    for (const auto& [name, parameter] : parameters_) {
      names.push_back(parameter.state().name);
      used.add(parameter);
    }
    recorder.record_grads(
        GradPoint::kUsed, recorder.names().intern_layout(names), used.list(), trace_.wrapper());
    return true;
  }

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
    if (shared_out_) trace_.record_found();
    trace_.begin_forward(false, true);
    trace_.record_forward({.synchronizing = false}, *runtime_);
    return true;
  }

  Runtime* runtime_;
  std::vector<NamedVariable> parameters_;
  std::vector<NamedVariable> buffers_;
  WrapperTrace trace_;
  GradientTrace gradients_;
  bool shared_out_;
  std::int32_t n_ranks_;
  PackedGradients packed_;
  std::int64_t n_sent_ = 0;
  bool running_ = false;  // A backward has reached it, and has not ended.
};

OwnLoops::OwnLoops(Runtime& runtime, std::int32_t n_ranks)
    : runtime_(&runtime), n_ranks_(n_ranks), shards_(runtime.recorder()->rank(), n_ranks) {
  runtime.set_own_reductions(this);
}

OwnLoops::~OwnLoops() { runtime_->set_own_reductions(nullptr); }

void OwnLoops::on_received(const Sent& received) {
  shards_.on_whole(received);
  for (const std::unique_ptr<Loop>& loop : loops_) loop->on_received(received);
}

void OwnLoops::on_shard_received(const Sent& received) { shards_.on_shard(received); }

void OwnLoops::on_sent(const Sent& sent) {
  for (const std::unique_ptr<Loop>& loop : loops_) loop->on_sent(sent);
  if (any_wrapped()) return;
  if (sent_.size() >= kMostSent) sent_.clear();  // No optimizer steps.
  sent_.push_back({sent.data, sent.n_elems, sent.adds});
}

bool OwnLoops::any_wrapped() const { return runtime_->recorder()->n_wrappers() != n_begun_; }

void OwnLoops::record_shard_factor(std::span<const Variable> parameters) {
  const std::optional<double> factor = shards_.on_step(parameters);
  if (!factor) return;
  Recorder& recorder = *runtime_->recorder();
  recorder.record(ClipEvent{.kind = ClipKind::kPart,
                            .factor = *factor,
                            .layout = recorder.names().intern_layout({}),
                            .whole = false});
}

void OwnLoops::before_step(std::span<const Variable> parameters) {
  record_shard_factor(parameters);
  std::erase_if(loops_, [&](const std::unique_ptr<Loop>& loop) {
    const bool falls_short = loop->owns_any_of(parameters) && !loop->is_sent();
    const bool ends = falls_short || !loop->has_any();
    if (ends) loop->let_go();
    return ends;
  });
  for (const std::unique_ptr<Loop>& loop : loops_) {
    if (loop->owns_any_of(parameters)) loop->before_step();
  }
  shared_out_.reset();
  if (sent_.empty() || any_wrapped() || has_stepped(parameters)) return;
  const std::vector<Variable> of_others = sent_for_others();
  if (of_others.empty()) return;
  shared_out_ = model_shared_out(parameters, of_others);
  // Each rank's share alone might get another name, as in the layer that it is all of.
  NameTable& names = runtime_->recorder()->names();
  for (const auto& [name, parameter] : *shared_out_) parameter.state().name = names.intern(name);
}

void OwnLoops::after_step(std::span<const Variable> parameters) {
  bool of_a_loop = false;
  for (const std::unique_ptr<Loop>& loop : loops_) {
    if (!loop->owns_any_of(parameters)) continue;
    loop->step_over();
    of_a_loop = true;
    if (!trains_beside_) loop->count_outside();
  }
  if (any_wrapped()) return;
  std::vector<NamedVariable> reduced;
  if (!has_stepped(parameters)) {
    reduced =
        reduced_of(shared_out_ ? *shared_out_ : free_of(parameters, runtime_->recorder()->names()));
  }
  for (const Variable& parameter : parameters) stepped_.insert(parameter.state().id);
  forget_sent_of(parameters);
  trains_beside_ = trains_beside_ || (!of_a_loop && reduced.empty());
  if (reduced.empty()) return;
  ++n_begun_;
  loops_.push_back(std::make_unique<Loop>(
      *runtime_, Loop::Reduced{std::move(reduced), shared_out_.has_value(), n_ranks_}));
}

// Of steps that were taken before, nothing was reduced.
bool OwnLoops::has_stepped(std::span<const Variable> parameters) const {
  return std::ranges::any_of(parameters, [this](const Variable& parameter) {
    const VariableState& state = parameter.state();
    return parameter.requires_grad() && state.wrapper < 0 && stepped_.contains(state.id);
  });
}

std::vector<Variable> OwnLoops::sent_for_others() const {
  std::vector<Variable> found;
  for (const ListedModule* at = runtime_->modules(); at != nullptr; at = at->older()) {
    for (const NamedVariable& entry : at->named_parameters()) {
      const bool is_known = std::ranges::find(found, entry.variable) != found.end();
      if (is_free_of_optimizers(entry.variable) && !is_known && is_sent(entry.variable)) {
        found.push_back(entry.variable);
      }
    }
  }
  return found;
}

std::vector<NamedVariable> OwnLoops::model_shared_out(std::span<const Variable> own,
                                                      std::span<const Variable> of_others) {
  std::vector<Variable> all(own.begin(), own.end());
  all.insert(all.end(), of_others.begin(), of_others.end());
  std::vector<NamedVariable> model = smallest_list_of(all);
  std::erase_if(model, [&](const NamedVariable& entry) {
    const VariableState& state = entry.variable.state();
    const bool is_own = std::ranges::find(own, entry.variable) != own.end();
    const bool is_trained = entry.variable.requires_grad() && state.wrapper < 0;
    return !is_trained || !(is_own || is_free_of_optimizers(entry.variable));
  });
  return model;
}

bool OwnLoops::is_sent(const Variable& parameter) const {
  const void* const grad = parameter.grad().defined() ? parameter.grad().address() : nullptr;
  return grad != nullptr && std::ranges::any_of(sent_, [&](const Piece& sent) {
           return sent.data == grad && sent.n_elems == parameter.grad().n_elems();
         });
}

bool OwnLoops::are_sent_in_parts(std::span<const NamedVariable> parameters) const {
  std::vector<std::int64_t> sizes;
  for (const NamedVariable& entry : parameters) sizes.push_back(entry.variable.data().n_elems());
  const auto all_sent = [&] {
    std::size_t next = 0;
    for (const Piece& sent : sent_) {
      if (sent.adds) next = end_of_part(sizes, next, sent.n_elems);
    }
    return next == sizes.size();
  };
  if (all_sent()) return true;
  std::ranges::reverse(sizes);
  return all_sent();
}

// A parameter without a gradient may have one on another rank.
std::vector<NamedVariable> OwnLoops::reduced_of(const std::vector<NamedVariable>& free) const {
  std::vector<NamedVariable> with_gradient;
  std::vector<NamedVariable> reduced;
  for (const NamedVariable& entry : free) {
    const bool has_grad = entry.variable.has_grad();
    if (has_grad) with_gradient.push_back(entry);
    if (!has_grad || is_sent(entry.variable)) reduced.push_back(entry);
  }
  const std::size_t n_left_out = free.size() - reduced.size();
  const bool none_is_sent = n_left_out == with_gradient.size();
  if (none_is_sent && n_left_out > 0 && are_sent_in_parts(with_gradient)) return with_gradient;
  const bool most_are_sent =
      2 * n_left_out < free.size() || n_elements_of(free) < 2 * n_elements_of(reduced);
  return !none_is_sent && most_are_sent ? reduced : std::vector<NamedVariable>();
}

// What was sent before this step counts for no later one, unless another optimizer's gradients were
// among it.
void OwnLoops::forget_sent_of(std::span<const Variable> parameters) {
  const std::size_t n_before = sent_.size();
  std::erase_if(sent_, [&](const Piece& sent) {
    return std::ranges::any_of(parameters, [&](const Variable& parameter) {
      return parameter.grad().defined() && parameter.grad().address() == sent.data;
    });
  });
  if (sent_.size() == n_before) sent_.clear();
}

}  // namespace lockstep
