#include <algorithm>
#include <fmt/core.h>
#include <set>
#include <stdexcept>

#include "lockstep/nn/module.h"
#include "lockstep/tensor/kernels.h"
#include "lockstep/trace/recorder.h"

namespace lockstep::nn {

namespace {

auto named(std::string_view name) {
  return [name](const auto& entry) { return entry.name == name; };
}

/// "\"weight\", \"bias\"".
std::string quoted(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "\"" : ", \"") + name + "\"";
  return text;
}

/// PyTorch's lines about names, and about shapes.
std::vector<std::string> complaints(const IncompatibleKeys& keys,
                                    std::span<const NamedVariable> own,
                                    const StateDict& from) {
  std::vector<std::string> lines;
  if (!keys.missing_keys.empty()) {
    lines.push_back("Missing key(s) in state_dict: " + quoted(keys.missing_keys) + ". ");
  }
  if (!keys.unexpected_keys.empty()) {
    lines.push_back("Unexpected key(s) in state_dict: " + quoted(keys.unexpected_keys) + ". ");
  }
  for (const NamedVariable& entry : own) {
    const Tensor* const values = from.find(entry.name);
    if (values == nullptr || values->shape() == entry.variable.shape()) continue;
    lines.push_back(
        fmt::format("size mismatch for {}: copying a param with shape {} from checkpoint, the "
                    "shape in current model is {}.",
                    entry.name,
                    values->shape().text(),
                    entry.variable.shape().text()));
  }
  return lines;
}

IncompatibleKeys compare(std::span<const NamedVariable> own, const StateDict& from) {
  IncompatibleKeys keys;
  for (const NamedVariable& entry : own) {
    if (!from.contains(entry.name)) keys.missing_keys.push_back(entry.name);
  }
  for (const StateEntry& entry : from) {
    if (std::ranges::none_of(own, named(entry.name))) keys.unexpected_keys.push_back(entry.name);
  }
  return keys;
}

/// Ranks must load the same into a wrapped model: its state is recorded, and looked at again as the
/// next synchronising forward begins.
void record_load(std::span<const NamedVariable> loaded, const Runtime& runtime) {
  Recorder* const recorder = runtime.recorder();
  if (recorder == nullptr) return;
  std::set<std::int32_t> wrappers;
  for (const NamedVariable& entry : loaded) wrappers.insert(entry.variable.state().wrapper);
  for (const std::int32_t wrapper : wrappers) {
    StateSource* const source = wrapper < 0 ? nullptr : recorder->source(wrapper);
    if (source != nullptr && !source->is_apart()) source->record_state(StatePoint::kLoad);
  }
}

}  // namespace

StateDict::StateDict(std::vector<StateEntry> entries) : entries_(std::move(entries)) {
  std::set<std::string_view> names;
  for (const StateEntry& entry : entries_) {
    LOCKSTEP_CHECK(names.insert(entry.name).second,
                   fmt::format("the name '{}' occurs twice in this state", entry.name));
  }
}

void StateDict::set(std::string name, Tensor values) {
  const auto known = std::ranges::find_if(entries_, named(name));
  if (known == entries_.end()) {
    entries_.push_back({.name = std::move(name), .values = std::move(values)});
  } else {
    known->values = std::move(values);
  }
}

bool StateDict::erase(std::string_view name) { return std::erase_if(entries_, named(name)) > 0; }

const Tensor* StateDict::find(std::string_view name) const {
  const auto known = std::ranges::find_if(entries_, named(name));
  return known == entries_.end() ? nullptr : &known->values;
}

const Tensor& StateDict::at(std::string_view name) const {
  const Tensor* const values = find(name);
  std::vector<std::string> names;
  for (const StateEntry& entry : entries_) names.push_back(entry.name);
  LOCKSTEP_CHECK(values != nullptr,
                 fmt::format("no '{}' in this state; it has {}", name, quoted(names)));
  return *values;
}

StateDict StateDict::clone() const {
  StateDict copy = *this;
  for (StateEntry& entry : copy.entries_) entry.values = entry.values.detached().clone();
  return copy;
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as modules are nested.
void Module::list_state(const std::string& prefix, std::vector<NamedVariable>& all) const {
  for (const std::vector<NamedVariable>* own : {&parameters_, &buffers_}) {
    for (const NamedVariable& entry : *own) all.push_back({prefix + entry.name, entry.variable});
  }
  for (const Child& child : children_) child.module->list_state(prefix + child.name + ".", all);
}

StateDict Module::state_dict() const {
  std::vector<NamedVariable> own;
  list_state("", own);
  std::vector<StateEntry> entries;
  entries.reserve(own.size());
  for (const NamedVariable& entry : own) {
    entries.push_back({.name = entry.name, .values = entry.variable.data().detached()});
  }
  return StateDict(std::move(entries));
}

IncompatibleKeys Module::load_state_dict(const StateDict& from, bool strict, const CallSite& site) {
  std::vector<NamedVariable> own;
  list_state("", own);
  const IncompatibleKeys keys = compare(own, from);
  const std::vector<std::string> lines = complaints(strict ? keys : IncompatibleKeys{}, own, from);
  if (!lines.empty()) {
    std::string text = site.known() ? site.text() + ": " : "";
    text += "Error(s) in loading state_dict:";
    for (const std::string& line : lines) text += "\n\t" + line;
    throw std::runtime_error(text);
  }
  const UserCall call(*runtime_, site);
  for (const NamedVariable& entry : own) {
    const Tensor* const values = from.find(entry.name);
    const Tensor& data = entry.variable.data();
    if (values == nullptr || values->is_alias_of(data)) continue;
    runtime_->kernels().copy(data, *values);
    data.storage()->bump_version();
  }
  record_load(own, *runtime_);
  return keys;
}

void Module::requires_grad(bool on) const {
  for (const Variable& parameter : parameters()) parameter.set_requires_grad(on);
}

}  // namespace lockstep::nn
