#include "lockstep/ddp/wrapper_trace.h"

namespace lockstep {

WrapperTrace::WrapperTrace(Recorder& recorder, const WrappedState& state)
    : recorder_(&recorder),
      wrapper_(recorder.open_wrapper()),
      params_layout_(layout_of(state.replicated)) {
  std::vector<NamedVariable> frozen;
  for (const NamedVariable& entry : state.replicated) {
    params_.push_back(entry.variable);
    if (!entry.variable.requires_grad()) frozen.push_back(entry);
  }
  for (const NamedVariable& entry : state.buffers) buffers_.push_back(entry.variable);
  layouts_.params = layout_of(state.reduced);
  layouts_.frozen = layout_of(frozen);
  layouts_.buffers = layout_of(state.buffers);
  std::vector<NameId> ignored;
  for (const std::string& name : state.ignored) ignored.push_back(recorder.names().intern(name));
  layouts_.ignored = recorder.names().intern_layout(ignored);
  for (const NamedVariable& entry : state.left_alone) {
    VariableState& own = entry.variable.state();
    if (own.name != kNoName) continue;  // Replicated by this wrapper, or by another one.
    own.name = recorder.names().intern(entry.name);
    own.wrapper = wrapper_;
  }
}

LayoutId WrapperTrace::layout_of(std::span<const NamedVariable> variables) {
  std::vector<NameId> names;
  for (const NamedVariable& entry : variables) {
    const NameId name = recorder_->names().intern(entry.name);
    names.push_back(name);
    entry.variable.state().name = name;
    entry.variable.state().wrapper = wrapper_;
  }
  return recorder_->names().intern_layout(names);
}

void WrapperTrace::record_wrap(WrapEvent event, std::string_view buffer_policy) {
  event.params = layouts_.params;
  event.frozen = layouts_.frozen;
  event.buffers = layouts_.buffers;
  event.ignored = layouts_.ignored;
  event.buffer_policy = recorder_->names().intern(buffer_policy);
  recorder_->record(event, wrapper_);
}

void WrapperTrace::begin_forward(bool synchronizing) {
  Position& position = recorder_->position(wrapper_);
  ++position.micro;
  if (synchronizing) ++position.sync;
}

void WrapperTrace::record_forward(const ForwardEvent& event) { recorder_->record(event, wrapper_); }

void WrapperTrace::record_state(StatePoint point) {
  record_state(StateKind::kParam, point, params_layout_, params_);
  if (!buffers_.empty()) record_state(StateKind::kBuffer, point, layouts_.buffers, buffers_);
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
