#include "lockstep/nn/detail/model_copy.h"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "lockstep/nn/module.h"
#include "lockstep/trace/recorder.h"

namespace lockstep::nn {

namespace {

bool any_has_stepped(Recorder& recorder) {
  for (std::int32_t wrapper = 0; wrapper < recorder.n_wrappers(); ++wrapper) {
    if (recorder.position(wrapper).opt > 0) return true;
  }
  return false;
}

/// Whether something reduces the parameters, or a backward has reached them: each rank may adapt such a
/// model to data of its own.
bool is_trained(std::span<const NamedVariable> parameters) {
  return std::ranges::any_of(parameters, [](const NamedVariable& entry) {
    const VariableState& state = entry.variable.state();
    return state.wrapper >= 0 || state.accumulator;
  });
}

std::vector<const Tensor*> tensors_of(std::span<const NamedVariable> parameters) {
  std::vector<const Tensor*> tensors;
  tensors.reserve(parameters.size());
  for (const NamedVariable& entry : parameters) tensors.push_back(&entry.variable.data());
  return tensors;
}

std::vector<NameId> names_of(std::span<const NamedVariable> parameters,
                             const std::string& before,
                             NameTable& names) {
  std::vector<NameId> ids;
  ids.reserve(parameters.size());
  for (const NamedVariable& entry : parameters) ids.push_back(names.intern(before + entry.name));
  return ids;
}

/// The one wrapper whose parameters have the names and shapes of these, or -1.
std::int32_t like(std::span<const NamedVariable> parameters, Recorder& recorder) {
  const std::vector<NameId> names = names_of(parameters, "", recorder.names());
  const std::vector<const Tensor*> tensors = tensors_of(parameters);
  std::int32_t found = -1;
  for (std::int32_t wrapper = 0; wrapper < recorder.n_wrappers(); ++wrapper) {
    const StateSource* const source = recorder.source(wrapper);
    if (source == nullptr || !source->is_like(names, tensors)) continue;
    if (found >= 0) return -1;
    found = wrapper;
  }
  return found;
}

}  // namespace

void ModelCopy::note_call(Module& module) {
  Recorder& recorder = *module.runtime().recorder();
  if (role_ == Role::kUnknown) role_ = role_of(module, recorder);
  if (role_ == Role::kCopy) record(module, recorder);
}

ModelCopy::Role ModelCopy::role_of(Module& module, Recorder& recorder) {
  const bool is_reduced =
      !module.parameters_.empty() && module.parameters_.front().variable.state().wrapper >= 0;
  if (is_reduced || (module.parameters_.empty() && module.children_.empty())) return Role::kNone;
  if (!any_has_stepped(recorder)) return Role::kUnknown;  // It may be wrapped yet.
  const std::vector<NamedVariable> parameters = module.named_parameters();
  if (parameters.empty() || is_trained(parameters)) return Role::kNone;
  wrapper_ = like(parameters, recorder);
  if (wrapper_ < 0) return Role::kNone;
  for (const ListedModule* at = module.runtime().modules(); at != nullptr; at = at->older()) {
    if (at == &module) continue;
    const std::vector<NamedVariable> others = at->named_parameters();
    if (!is_trained(others) && like(others, recorder) == wrapper_) return Role::kNone;
  }
  return Role::kCopy;
}

void ModelCopy::record(const Module& module, Recorder& recorder) {
  const StateSource* const source = recorder.source(wrapper_);
  const std::int32_t sync = recorder.position(wrapper_).sync;
  if (source == nullptr || source->is_apart() || sync < next_) return;
  const std::vector<NamedVariable> parameters = module.named_parameters();
  if (is_trained(parameters)) {
    role_ = Role::kNone;
    return;
  }
  next_ = 2 * std::max(sync, 1);
  NameTable& names = recorder.names();
  recorder.record_states(StateKind::kAuxiliary,
                         StatePoint::kEval,
                         names.intern_layout(names_of(parameters, "copy/", names)),
                         tensors_of(parameters),
                         wrapper_);
}

}  // namespace lockstep::nn
