#include "lockstep/autograd/listed_module.h"

#include <algorithm>
#include <utility>

namespace lockstep {

namespace {

bool has_all(std::span<const NamedVariable> list, std::span<const Variable> parameters) {
  return std::ranges::all_of(parameters, [&](const Variable& parameter) {
    return std::ranges::find(list, parameter, &NamedVariable::variable) != list.end();
  });
}

struct SmallestModule {
  const ListedModule* module = nullptr;
  std::vector<NamedVariable> list;
};

SmallestModule smallest_module_of(std::span<const Variable> parameters) {
  SmallestModule smallest;
  if (parameters.empty()) return smallest;
  // From the youngest on: a module is older than its parts.
  const ListedModule* at = parameters.front().runtime().modules();
  for (; at != nullptr; at = at->older()) {
    std::vector<NamedVariable> list = at->named_parameters();
    if (smallest.module != nullptr && list.size() > smallest.list.size()) continue;
    if (has_all(list, parameters)) smallest = {at, std::move(list)};
  }
  return smallest;
}

}  // namespace

std::vector<NamedVariable> smallest_list_of(std::span<const Variable> parameters) {
  return smallest_module_of(parameters).list;
}

std::vector<NamedVariable> buffers_beside(std::span<const Variable> parameters) {
  const ListedModule* const module = smallest_module_of(parameters).module;
  return module == nullptr ? std::vector<NamedVariable>() : module->named_buffers();
}

std::vector<std::string> names_of(std::span<const Variable> parameters) {
  const std::vector<NamedVariable> list = smallest_list_of(parameters);
  if (list.empty()) return places_of(parameters);
  std::vector<std::string> names;
  for (const Variable& parameter : parameters) {
    names.push_back(std::ranges::find(list, parameter, &NamedVariable::variable)->name);
  }
  return names;
}

std::vector<std::string> places_of(std::span<const Variable> parameters) {
  std::vector<std::string> places;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    places.push_back("parameter." + std::to_string(i));
  }
  return places;
}

}  // namespace lockstep
