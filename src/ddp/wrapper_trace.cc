#include "lockstep/ddp/wrapper_trace.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <exception>
#include <string>

#include "lockstep/autograd/autocast.h"
#include "lockstep/tensor/contents.h"
#include "lockstep/tensor/digest.h"

namespace lockstep {

namespace {

AutocastType autocast_type(const Runtime& runtime) {
  const AutocastOptions options = autocast_options(runtime);
  if (!options.enabled) return AutocastType::kNone;
  return options.dtype == DType::kF16 ? AutocastType::kF16 : AutocastType::kBF16;
}

void describe(const NamedVariable& named, std::string_view manner, std::pmr::string& text) {
  const Tensor& data = named.variable.data();
  text += named.name;
  for (const std::int64_t size : data.shape().sizes()) {
    std::array<char, 20> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), size);
    text += ' ';
    text.append(digits.data(), end.ptr);
  }
  text += ' ';
  text += name_of(data.dtype());
  text += named.variable.requires_grad() ? " trained" : " frozen";
  text += manner;
  text += '\n';
}

/// Statistics of each rank's own batches, such as batch norm's.
constexpr std::array<std::string_view, 2> kRunningStatistics = {"running_mean", "running_var"};

bool is_running_statistic(std::string_view buffer) {
  const std::string_view last = buffer.substr(buffer.rfind('.') + 1);
  return std::find(kRunningStatistics.begin(), kRunningStatistics.end(), last) !=
         kRunningStatistics.end();
}

std::uint64_t schema_of(const WrappedState& state, Pool& pool) {
  constexpr std::size_t kUsualLine = 40;
  std::pmr::string text(&pool);
  text.reserve(kUsualLine * (state.left_alone.size() + state.buffers.size()));
  for (const NamedVariable& named : state.left_alone) {
    const auto& ignored = state.ignored;
    const bool is_ignored = std::find(ignored.begin(), ignored.end(), named.name) != ignored.end();
    describe(named, is_ignored ? " ignored" : "", text);
  }
  for (const NamedVariable& named : state.buffers) describe(named, " buffer", text);
  return sm64(text.data(), static_cast<std::int64_t>(text.size()), DType::kU8);
}

}  // namespace

WrapperTrace::WrapperTrace(Runtime& runtime, const WrappedState& state)
    : recorder_(runtime.recorder()),
      wrapper_(recorder_->open_wrapper()),
      names_(&runtime.pool()),
      params_layout_(layout_of(state.replicated)),
      params_(&runtime.pool()),
      params_data_(&runtime.pool()),
      buffers_(&runtime.pool()),
      shared_(&runtime.pool()),
      before_(&runtime.pool()),
      inputs_(*recorder_, wrapper_),
      schema_(schema_of(state, runtime.pool())),
      modules_(recorder_->names().intern(state.modules)),
      n_exceptions_(std::uncaught_exceptions()),
      tensors_(&runtime.pool()) {
  recorder_->set_source(wrapper_, this);
  params_.reserve(state.replicated.size());
  params_data_.reserve(state.replicated.size());
  for (const NamedVariable& entry : state.replicated) {
    params_.push_back(entry.variable);
    params_data_.push_back(&entry.variable.data());
  }
  buffers_.reserve(state.buffers.size());
  for (const NamedVariable& entry : state.buffers) {
    buffers_.push_back(entry.variable);
    if (!is_running_statistic(entry.name)) shared_.push_back(entry.variable);
  }
  tensors_.reserve(std::max(params_.size(), buffers_.size()));
  layouts_.params = layout_of(state.reduced);
  layouts_.frozen = frozen_layout(state.replicated);
  layouts_.buffers = layout_of(state.buffers);
  names_.clear();
  for (const std::string& name : state.ignored) names_.push_back(recorder_->names().intern(name));
  layouts_.ignored = recorder_->names().intern_layout(names_);
  for (const NamedVariable& entry : state.left_alone) {
    VariableState& own = entry.variable.state();
    if (own.wrapper >= 0) continue;  // Replicated by this wrapper, or by another one.
    own.name = recorder_->names().intern(entry.name);
    own.wrapper = wrapper_;
  }
}

WrapperTrace::~WrapperTrace() {
  recorder_->set_source(wrapper_, nullptr);
  if (!is_silent_ && std::uncaught_exceptions() == n_exceptions_) record_state(StatePoint::kEnd);
}

LayoutId WrapperTrace::layout_of(std::span<const NamedVariable> variables) {
  names_.clear();
  names_.reserve(variables.size());
  for (const NamedVariable& entry : variables) {
    const NameId name = recorder_->names().intern(entry.name);
    names_.push_back(name);
    entry.variable.state().name = name;
    entry.variable.state().wrapper = wrapper_;
  }
  return recorder_->names().intern_layout(names_);
}

LayoutId WrapperTrace::frozen_layout(std::span<const NamedVariable> replicated) {
  names_.clear();
  for (const NamedVariable& entry : replicated) {
    if (!entry.variable.requires_grad()) names_.push_back(recorder_->names().intern(entry.name));
  }
  return recorder_->names().intern_layout(names_);
}

void WrapperTrace::record_wrap(WrapEvent event, BufferPolicy buffer_policy) {
  event.params = layouts_.params;
  event.frozen = layouts_.frozen;
  event.buffers = layouts_.buffers;
  event.ignored = layouts_.ignored;
  event.buffer_policy = buffer_policy;
  recorder_->record(event, wrapper_);
  is_of_world_ = event.group == 0;
  if (!is_of_world_) return;
  recorder_->record(
      ConfigurationEvent{
          .name = recorder_->names().intern("model"), .digest = schema_, .value = modules_},
      wrapper_);
}

void WrapperTrace::begin_forward(bool synchronizing, bool grad) {
  Position& position = recorder_->position(wrapper_);
  if (grad) ++position.micro;
  if (synchronizing) ++position.sync;
}

void WrapperTrace::record_hook(const CommHookEvent& event) { recorder_->record(event, wrapper_); }

void WrapperTrace::record_forward(ForwardEvent event, const Runtime& runtime) {
  event.autocast = autocast_type(runtime);
  recorder_->record(event, wrapper_);
  inputs_.begin(event.training && event.grad);
}

void WrapperTrace::record_found() {
  recorder_->record_found(params_layout_, params_data_, wrapper_);
}

void WrapperTrace::look_at_buffers() {
  before_.clear();
  const RecordOptions& options = recorder_->options();
  if (!options.states || options.coverage > 1) return;
  for (const Variable& buffer : shared_) before_.push_back(known_digest(buffer.data()));
}

void WrapperTrace::record_replaced() {
  names_.clear();
  std::size_t n_replaced = 0;
  for (std::size_t i = 0; i < before_.size(); ++i) {
    if (known_digest(shared_[i].data()) == before_[i]) continue;
    names_.push_back(shared_[i].state().name);
    before_[n_replaced++] = before_[i];
  }
  if (n_replaced == 0) return;
  recorder_->record(StateEvent{.kind = StateKind::kBuffer,
                               .point = StatePoint::kFound,
                               .layout = recorder_->names().intern_layout(names_),
                               .digests = std::span(before_).first(n_replaced)},
                    wrapper_);
}

bool WrapperTrace::is_like(std::span<const NameId> names,
                           std::span<const Tensor* const> tensors) const {
  if (!is_of_world_ || names.size() != params_.size()) return false;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (params_[i].state().name != names[i]) return false;
    if (!(params_data_[i]->shape() == tensors[i]->shape())) return false;
  }
  return true;
}

void WrapperTrace::record_lone(LonePoint point) {
  const bool found = point == LonePoint::kFound;
  if (found && !alone_) return;
  alone_ = !found;
  recorder_->record_lone(point, params_layout_, params_data_, wrapper_);
}

void WrapperTrace::record_state(StatePoint point) {
  if (point == StatePoint::kLoad) is_loaded_ = true;
  record_lone(LonePoint::kFound);
  record_state(StateKind::kParam, point, params_layout_, params_);
  if (!buffers_.empty()) record_state(StateKind::kBuffer, point, layouts_.buffers, buffers_);
  recorder_->record_auxiliary(point, wrapper_);
}

void WrapperTrace::record_frozen(StatePoint point) {
  names_.clear();
  tensors_.clear();
  for (const Variable& parameter : params_) {
    if (parameter.requires_grad()) continue;
    names_.push_back(parameter.state().name);
    tensors_.push_back(&parameter.data());
  }
  if (!names_.empty()) {
    recorder_->record_states(
        StateKind::kParam, point, recorder_->names().intern_layout(names_), tensors_, wrapper_);
  }
  tensors_.clear();
}

void WrapperTrace::record_state(StateKind kind,
                                StatePoint point,
                                LayoutId layout,
                                std::span<const Variable> variables) {
  tensors_.clear();
  for (const Variable& variable : variables) tensors_.push_back(&variable.data());
  recorder_->record_states(kind, point, layout, tensors_, wrapper_);
  tensors_.clear();
}

}  // namespace lockstep
