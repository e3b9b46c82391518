// What all optimizers share: their parameters, the learning rate, named state, and the record of a
// step.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/autograd/variable.h"
#include "lockstep/base/names.h"

namespace lockstep::optim {

/// One kind of per-parameter state, in the order of the parameters. Undefined = not created yet.
struct StateList {
  std::string name;  ///< "momentum_buffer", as in PyTorch's state_dict.
  std::vector<Tensor> tensors;
  bool is_count = false;  ///< Scalars that count steps: never rounded to a grid.
};

/// Whose bits to reproduce where generations of PyTorch differ.
enum class Compat : std::uint8_t {
  kTorch1,  ///< 1.13: running means by mul and add.
  kTorch2,  ///< 2.7: running means by lerp.
};

/// The one declared rounding of exact mode: multiples of 2^-bits in [-limit, limit].
struct GridRounding {
  int bits = 4;
  double limit = 8.0;
};

/// Updates parameters from their gradients.
///
/// A parameter whose gradient is undefined is skipped whole, as in PyTorch: no decay, no momentum.
///
/// step() records through the runtime's recorder, once for each wrapper that owns some of the
/// parameters: the gradients used, the new parameters and state ("fc.weight/momentum_buffer"), and
/// the step itself; then it moves the wrapper's position on to the next step.
class Optimizer {
 public:
  /// Requires: at least one parameter, all on one runtime.
  explicit Optimizer(std::vector<Variable> parameters);
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  Optimizer(Optimizer&&) = delete;
  Optimizer& operator=(Optimizer&&) = delete;

  void step();
  /// Forgets all gradients (PyTorch's set_to_none), or fills the defined ones with zeros in place.
  void zero_grad(bool set_to_none = true) const;

  std::span<const Variable> parameters() const { return parameters_; }

  double lr() const { return lr_; }

  void set_lr(double lr) { lr_ = lr; }

  /// Moments and the like, for snapshots.
  std::span<StateList> state() { return state_; }

  std::span<const StateList> state() const { return state_; }

  /// Rounds all parameters and state to a grid as the last part of each step, before it is
  /// recorded.
  void round_each_step(GridRounding rounding) { rounding_ = rounding; }

 protected:
  /// Updates parameter `i`, whose gradient is defined.
  virtual void update(std::size_t i) = 0;
  /// Adds a list of undefined tensors, one a parameter, and returns its index in state().
  std::size_t add_state(std::string name);
  /// The same for a list of counts, f32 scalars as PyTorch's (exact to 2^24).
  std::size_t add_count();
  /// State `list` of parameter `i`, created on first use filled with `value`.
  const Tensor& state_of(std::size_t list, std::size_t i, double value = 0.0);
  /// Adds one to the count of parameter `i` and returns it.
  double advance_count(std::size_t list, std::size_t i);

  Runtime& runtime() const { return parameters_.front().runtime(); }

 private:
  /// The parameters of one wrapper, as events name them.
  struct RecordGroup {
    std::int32_t wrapper;
    std::vector<std::size_t> indices;
    LayoutId names;
    LayoutId state_names;
  };

  void update_all();
  void round_all() const;
  void prepare_groups(Recorder& recorder);
  void name_group(RecordGroup& group, NameTable& names) const;
  void record_used(Recorder& recorder);
  void record_step(Recorder& recorder);

  std::vector<Variable> parameters_;
  std::vector<StateList> state_;
  double lr_ = 0.0;
  std::optional<GridRounding> rounding_;

  // Valid for this recorder and number of wrappers: wrapping names the parameters.
  const Recorder* grouped_for_ = nullptr;
  std::int32_t grouped_wrappers_ = -1;
  std::vector<RecordGroup> groups_;
  std::vector<Tensor> scratch_;
};

}  // namespace lockstep::optim
