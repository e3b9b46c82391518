// A model's parameters and buffers by name, in memory: what checkpoints, averages and target networks are made of.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/tensor/tensor.h"

namespace lockstep::nn {

/// One tensor with its qualified name ("trunk.weight").
struct StateEntry {
  std::string name;
  Tensor values;
};

/// What Module::state_dict returns: names and tensors, in PyTorch's order. It shares memory with the model, as
/// PyTorch's does: what an optimizer writes later is seen in it, but for a clone.
class StateDict {
 public:
  StateDict() = default;
  /// Errors: ContractViolation for a name that is there twice.
  explicit StateDict(std::vector<StateEntry> entries);

  /// Sets the values of a name, which is new or known.
  void set(std::string name, Tensor values);
  /// Takes a name out. Returns whether it was there.
  bool erase(std::string_view name);
  /// The values of a name, or null.
  const Tensor* find(std::string_view name) const;
  /// The same. Errors: ContractViolation where the name is unknown, with those that are there.
  const Tensor& at(std::string_view name) const;

  bool contains(std::string_view name) const { return find(name) != nullptr; }

  std::size_t size() const { return entries_.size(); }

  auto begin() const { return entries_.begin(); }

  auto end() const { return entries_.end(); }

  /// The values as they are now, in memory of their own (`copy.deepcopy(model.state_dict())`).
  StateDict clone() const;

 private:
  std::vector<StateEntry> entries_;
};

/// What a load that is not strict has left out.
struct IncompatibleKeys {
  std::vector<std::string> missing_keys;     ///< Of the model, which keeps what it had.
  std::vector<std::string> unexpected_keys;  ///< Of the state, which nothing took.

  bool empty() const { return missing_keys.empty() && unexpected_keys.empty(); }
};

/// Another model of the class of `model` with its values and its mode: PyTorch's `copy.deepcopy(model)`, for averages of
/// weights and target networks. The copy is constructed from `arguments`, which leave out a Generator: a copy draws
/// no initial values.
///
///   const auto target = nn::copy_of(model, rank.runtime(), 4, 2);
///
/// Requires: the arguments make a model of the same names and shapes.
/// Errors: those of Module::load_state_dict.
template <typename M, typename... Arguments>
std::unique_ptr<M> copy_of(const M& model, Arguments&&... arguments) {
  auto copy = std::make_unique<M>(std::forward<Arguments>(arguments)...);
  copy->load_state_dict(model.state_dict());
  copy->train(model.is_training());
  return copy;
}

}  // namespace lockstep::nn
