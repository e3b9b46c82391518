// Which variables a forward's return value holds.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "lockstep/autograd/variable.h"

namespace lockstep {

/// A structure of outputs that shows its variables: it has a member template
///
///   template <typename Visit> void visit_outputs(Visit&& visit) { visit(logits); visit(hidden); }
template <typename T>
concept ShowsOutputs = requires(T& value) {
  value.visit_outputs([](auto&) {});
};

/// Calls `visit` with each variable inside a forward's return value, in order. The general case
/// finds none: variables hidden in a type of which nothing is known are invisible to DDP, as
/// tensors in custom objects are to PyTorch's.
///
/// Source: torch.nn.parallel.distributed._find_tensors, which looks into lists, tuples, dicts and
///     data classes.
template <typename T>
struct ForwardOutputs {
  template <typename Visit>
  static void each(T& /*value*/, Visit&& /*visit*/) {}
};

template <typename T, typename Visit>
void each_output(T& value, Visit&& visit) {
  ForwardOutputs<T>::each(value, visit);
}

template <>
struct ForwardOutputs<Variable> {
  template <typename Visit>
  static void each(Variable& value, Visit&& visit) {
    if (value.defined()) visit(value);
  }
};

template <ShowsOutputs T>
struct ForwardOutputs<T> {
  template <typename Visit>
  static void each(T& value, Visit&& visit) {
    value.visit_outputs([&visit](auto& part) { each_output(part, visit); });
  }
};

template <typename T>
struct ForwardOutputs<std::vector<T>> {
  template <typename Visit>
  static void each(std::vector<T>& value, Visit&& visit) {
    for (T& part : value) each_output(part, visit);
  }
};

template <typename T, std::size_t kSize>
struct ForwardOutputs<std::array<T, kSize>> {
  template <typename Visit>
  static void each(std::array<T, kSize>& value, Visit&& visit) {
    for (T& part : value) each_output(part, visit);
  }
};

template <typename K, typename T>
struct ForwardOutputs<std::map<K, T>> {
  template <typename Visit>
  static void each(std::map<K, T>& value, Visit&& visit) {
    for (auto& [key, part] : value) each_output(part, visit);
  }
};

template <typename T>
struct ForwardOutputs<std::optional<T>> {
  template <typename Visit>
  static void each(std::optional<T>& value, Visit&& visit) {
    if (value) each_output(*value, visit);
  }
};

template <typename A, typename B>
struct ForwardOutputs<std::pair<A, B>> {
  template <typename Visit>
  static void each(std::pair<A, B>& value, Visit&& visit) {
    each_output(value.first, visit);
    each_output(value.second, visit);
  }
};

template <typename... Parts>
struct ForwardOutputs<std::tuple<Parts...>> {
  template <typename Visit>
  static void each(std::tuple<Parts...>& value, Visit&& visit) {
    std::apply([&visit](auto&... part) { (each_output(part, visit), ...); }, value);
  }
};

}  // namespace lockstep
