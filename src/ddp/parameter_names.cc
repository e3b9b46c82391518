#include "lockstep/ddp/parameter_names.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace lockstep {

namespace {

// The reducer spells names as "<module>.<parameter>", where the root module's own name is empty.
std::string reducer_spelling(const std::string& name) {
  return name.find('.') == std::string::npos ? "." + name : name;
}

bool holds(std::span<const NamedVariable> variables, const Variable& variable) {
  return std::any_of(variables.begin(), variables.end(), [&variable](const NamedVariable& entry) {
    return entry.variable == variable;
  });
}

}  // namespace

bool lists(std::span<const std::string> ignored, std::string_view name) {
  return std::find(ignored.begin(), ignored.end(), name) != ignored.end();
}

std::vector<NamedVariable> without_ignored(std::vector<NamedVariable> variables,
                                           std::span<const std::string> ignored) {
  if (ignored.empty()) return variables;
  std::erase_if(variables, [&](const NamedVariable& entry) { return lists(ignored, entry.name); });
  return variables;
}

std::vector<NamedVariable> reducer_parameters(const ReplicatedState& state,
                                              std::span<const std::string> ignored) {
  std::vector<NamedVariable> kept;
  kept.reserve(state.parameters.size());
  for (const NamedVariable& entry : state.all_names.empty() ? state.parameters : state.all_names) {
    if (!entry.variable.requires_grad() || holds(kept, entry.variable)) continue;
    if (ignored.empty() || !lists(ignored, reducer_spelling(entry.name))) kept.push_back(entry);
  }
  return kept;
}

std::string debug_name(const NamedVariable& reduced,
                       const ReplicatedState& state,
                       std::span<const std::string> ignored) {
  const std::string* last = &reduced.name;
  for (const NamedVariable& entry : state.all_names) {
    const bool same = entry.variable == reduced.variable;
    if (same && !lists(ignored, reducer_spelling(entry.name))) last = &entry.name;
  }
  return reducer_spelling(*last);
}

ReplicatedState ReplicatedState::of(std::vector<NamedVariable> all_names,
                                    std::vector<NamedVariable> buffers) {
  const auto is_first = [&all_names](const NamedVariable& entry) {
    const auto n_before = static_cast<std::size_t>(&entry - all_names.data());
    return !holds(std::span(all_names).first(n_before), entry.variable);
  };
  ReplicatedState state;
  state.buffers = std::move(buffers);
  if (std::all_of(all_names.begin(), all_names.end(), is_first)) {
    state.parameters = std::move(all_names);
    return state;
  }
  std::copy_if(all_names.begin(), all_names.end(), std::back_inserter(state.parameters), is_first);
  state.all_names = std::move(all_names);
  return state;
}

}  // namespace lockstep
