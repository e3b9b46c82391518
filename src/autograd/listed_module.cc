#include "lockstep/autograd/listed_module.h"

#include <algorithm>
#include <utility>

namespace lockstep {

namespace {

/// The names that a module's list has for these parameters, or nothing if it lacks one.
std::vector<std::string> names_in(std::span<const NamedVariable> list,
                                  std::span<const Variable> parameters) {
  std::vector<std::string> names;
  for (const Variable& parameter : parameters) {
    const auto at = std::ranges::find(list, parameter, &NamedVariable::variable);
    if (at == list.end()) return {};
    names.push_back(at->name);
  }
  return names;
}

}  // namespace

std::vector<std::string> names_of(std::span<const Variable> parameters) {
  std::vector<std::string> names;
  if (parameters.empty()) return names;
  std::size_t n_fewest = 0;
  // From the youngest on: a module is older than its parts.
  const ListedModule* at = parameters.front().runtime().modules();
  for (; at != nullptr; at = at->older()) {
    const std::vector<NamedVariable> list = at->named_parameters();
    if (list.size() < parameters.size() || (!names.empty() && list.size() > n_fewest)) continue;
    std::vector<std::string> found = names_in(list, parameters);
    if (found.empty()) continue;
    names = std::move(found);
    n_fewest = list.size();
  }
  return names.empty() ? places_of(parameters) : names;
}

std::vector<std::string> places_of(std::span<const Variable> parameters) {
  std::vector<std::string> places;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    places.push_back("parameter." + std::to_string(i));
  }
  return places;
}

}  // namespace lockstep
