// The building block of models: named parameters, buffers and submodules around a forward function,
// and their state by name.
#pragma once

#include <cstddef>
#include <memory>
#include <memory_resource>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/autograd/listed_module.h"
#include "lockstep/autograd/user_call.h"
#include "lockstep/nn/detail/model_copy.h"
#include "lockstep/random/generator.h"

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

  /// Whether a name is there.
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

/// A model or a part of one.
///
/// Parameters, buffers and submodules are registered in a module's constructor; the order of
/// registration is the order of every list below, and with it of DDP's buckets and of the initial
/// draws. Submodules are members of the derived class (or owned by it) and registered by reference.
///
/// Source: torch.nn.Module: a tensor or module reached twice is listed once, under its first name.
class Module : public ListedModule {
 public:
  explicit Module(Runtime& runtime) : ListedModule(runtime), runtime_(&runtime) {}

  ~Module() override = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  Module(Module&&) = delete;
  Module& operator=(Module&&) = delete;

  /// What the module computes of x. Shapes: what the class says.
  virtual Variable forward(const Variable& x) = 0;

  /// The same. Of a model beside a wrapped one, with parameters of the same names and shapes, the
  /// call is noticed: ranks that use such a copy must have the same one.
  Variable operator()(const Variable& x, const CallSite& site = CallSite::here()) {
    return user_call(*runtime_, site, [&] {
      if (runtime_->recorder() != nullptr && copy_.may_be_one()) copy_.note_call(*this);
      if (is_evaluated_) record_evaluated(x);
      return forward(x);
    });
  }

  Runtime& runtime() const { return *runtime_; }

  /// Qualified names ("trunk.weight"), depth first: a module's own before its submodules'. Of a
  /// parameter with several names the first, or all of them without `remove_duplicate`.
  std::vector<NamedVariable> named_parameters(bool remove_duplicate = true) const override;
  std::vector<NamedVariable> named_buffers() const override;
  std::vector<Variable> parameters() const;
  /// What its modules compute with beside tensors, by name, depth first: "1: ReLU(); 2: Dropout(p=0.1)". Modules
  /// without a description are left out.
  std::string descriptions() const;

  /// Training or evaluation mode, of this module and everything in it. Modules start in training.
  ///
  /// Of a wrapped model the change is recorded as the beginning of a phase; at the end of an
  /// evaluation so are the parameters and buffers that it used.
  void train(bool on = true);

  /// Evaluation mode: train(false).
  void eval() { train(false); }

  bool is_training() const { return training_; }

  /// Forgets all gradients (`set_to_none`, PyTorch's `p.grad = None`) or fills them with zeros in
  /// place.
  void zero_grad(bool set_to_none = true) const;

  /// Freezes or unfreezes all parameters of this module (`requires_grad_`).
  void requires_grad(bool on = true) const;

  /// Every parameter and buffer under every name, tied ones repeatedly: a module's own before its submodules'.
  /// Source: torch.nn.Module.state_dict.
  StateDict state_dict() const;

  /// Copies the values of `from` into the tensors of these names, converting their dtype. Of a wrapped model the load
  /// is recorded: ranks must load the same.
  ///
  /// Returns: the names that were left out; none if `strict`.
  /// Errors: std::runtime_error with PyTorch's lines about missing and unexpected names, if `strict`, and about shapes
  ///     in any case. A departure: nothing has been copied then.
  /// Source: torch.nn.Module.load_state_dict.
  IncompatibleKeys load_state_dict(const StateDict& from,
                                   bool strict = true,
                                   const CallSite& site = CallSite::here());

  /// Draws new initial values for everything in this module, in order of registration: the same
  /// draws as constructing the model in PyTorch after torch.manual_seed.
  void reset_parameters(Generator& generator);

 protected:
  /// A new leaf that requires grad, or one that another module has registered too (tied weights).
  Variable register_parameter(std::string name, Tensor values);
  /// The second of these: `shared` is listed under the name that was first.
  Variable register_parameter(std::string name, const Variable& shared);
  /// State that is not trained, such as running statistics.
  Variable register_buffer(std::string name, Tensor values);
  /// Requires: `module` lives as long as this one.
  void register_module(std::string name, Module& module);

  /// This module's class and options, submodules not included: "Dropout(p=0.1)". Ranks that wrap
  /// models of other descriptions train different functions of the same parameters: a law compares
  /// them. Without "; ". Default: empty, which says nothing.
  virtual std::string description() const { return {}; }

  /// Draws this module's own initial values, submodules not included. Default: none are drawn.
  virtual void reset_own_parameters(Generator& /*generator*/) {}

  /// Draws again, over what the whole module holds by now: what a constructor does after its
  /// submodules are there (`self.apply(...)`). Runs for inner modules first. Default: nothing.
  virtual void redraw_parameters(Generator& /*generator*/) {}

 private:
  friend class ModelCopy;

  struct Child {
    std::string name;
    Module* module;
  };

  /// Records that a wrapped model changes its mode.
  /// Returns: whether it does.
  bool record_mode(bool training) const;
  /// Records how many rows a wrapped model evaluates.
  void record_evaluated(const Variable& x) const;
  void record_cleared(bool to_none) const;

  struct Visit {
    std::string prefix;  ///< "trunk." or empty.
    Module* module;
  };

  void list_state(const std::string& prefix, std::vector<NamedVariable>& all) const;
  /// This module and everything in it, each once, parents before children.
  std::pmr::vector<Visit> visits() const;
  static void visit(Module& module, std::string prefix, std::pmr::vector<Visit>& seen);
  static std::size_t n_listed(std::span<const Visit> modules,
                              std::vector<NamedVariable> Module::*list);
  std::vector<NamedVariable> collect(std::vector<NamedVariable> Module::*list,
                                     bool remove_duplicate) const;

  Runtime* runtime_;
  std::vector<NamedVariable> parameters_;
  std::vector<NamedVariable> buffers_;
  std::vector<Child> children_;
  bool training_ = true;
  bool is_evaluated_ = false;  // A wrapped model, as a whole.
  ModelCopy copy_;
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
