// What all optimizers share: their parameters in groups, named state, and the record of a step.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/autograd/sparse_rows.h"
#include "lockstep/autograd/variable.h"

namespace lockstep::optim {

/// One kind of per-parameter state, in the order of the parameters. Undefined = not created yet.
struct StateList {
  std::string name;  ///< "momentum_buffer", as in PyTorch's state_dict.
  std::vector<Tensor> tensors;
  bool is_count = false;  ///< Scalars that count steps: never rounded to a grid.
};

/// The one declared rounding of exact mode: multiples of 2^-bits in [-limit, limit].
struct GridRounding {
  int bits = 4;
  double limit = 8.0;
};

/// Parameters with their own options. What is left out comes from the optimizer's options.
struct ParamGroup {
  std::vector<Variable> parameters;
  std::optional<double> lr{};
  std::optional<double> weight_decay{};
  std::optional<double> momentum{};  ///< Adam and AdamW: beta1.
};

/// How far the schedule of an optimizer has come, if it has one that ends, and no other.
struct ScheduleProgress {
  std::int64_t total = 0;  ///< Steps that it was planned for, 0 = there is no such number.
  std::int64_t made = 0;   ///< Of them.

  friend bool operator==(const ScheduleProgress&, const ScheduleProgress&) = default;
};

/// The options that may differ between groups and change between steps.
struct GroupOptions {
  double lr = 0.0;
  double weight_decay = 0.0;
  std::optional<double> momentum{};  ///< Adam and AdamW: beta1. None where there is no such thing.
  ScheduleProgress schedule{};

  friend bool operator==(const GroupOptions&, const GroupOptions&) = default;
};

/// A group as the optimizer keeps it. Schedulers write `lr`, `initial_lr`, `momentum` and
/// `schedule`.
struct Group : GroupOptions {
  std::size_t first = 0;  ///< Its parameters are parameters()[first] to parameters()[end - 1].
  std::size_t end = 0;
  std::optional<double> initial_lr{};  ///< What schedules start from; set by the first scheduler.
};

/// What Optimizer::state_dict returns: PyTorch's "state" and "param_groups". Its tensors are the optimizer's own, as
/// PyTorch's are, but for a clone.
struct OptimizerState {
  std::vector<StateList> state;
  std::vector<Group> groups;

  /// With tensors in memory of their own.
  OptimizerState clone() const;
};

/// An option that all groups of an optimizer share.
struct OptimizerOption {
  std::string_view name;  ///< PyTorch's.
  double value = 0.0;     ///< Flags are 0 or 1.
};

/// What traces say about an optimizer.
struct OptimizerInfo {
  std::string_view kind = "optimizer";     ///< "sgd", "adamw", ...
  std::string_view momentum = "momentum";  ///< What GroupOptions::momentum is called: "beta1".
  std::vector<OptimizerOption> options{};  ///< Those that all groups share.
};

namespace detail {
class StepRecord;
struct StepOutcome;
struct OptimizerView;
}  // namespace detail

/// Updates parameters from their gradients.
///
/// A parameter whose gradient is undefined is skipped whole, as in PyTorch: no decay, no momentum.
///
/// step() records through the runtime's recorder, once for each wrapper that owns some of the
/// parameters: the options if they are new, the gradients used, the new parameters and state
/// ("fc.weight/momentum_buffer"), the wrapper's frozen parameters, and the step itself, with the
/// rate of the first of these parameters; then it moves the wrapper's position on to the next step.
/// Parameters that need no gradient at that moment are left out.
class Optimizer {
 public:
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  Optimizer(Optimizer&&) = delete;
  Optimizer& operator=(Optimizer&&) = delete;

  /// Updates every parameter that has a gradient.
  void step(const CallSite& site = CallSite::here());
  /// A step as GradScaler takes it: recorded with its loss scale, and left out if `found_inf`. A
  /// step that was left out records the untouched parameters and does not count as a step.
  void step_scaled(double scale, bool found_inf, const CallSite& site = CallSite::here());
  /// Forgets all gradients (PyTorch's set_to_none), or fills the defined ones with zeros in place.
  void zero_grad(bool set_to_none = true) const;

  std::span<const Variable> parameters() const { return parameters_; }

  /// To change options between steps.
  std::span<Group> groups() { return groups_; }

  std::span<const Group> groups() const { return groups_; }

  /// The first group's rate.
  double lr() const { return groups_.front().lr; }

  /// Gives every group this rate.
  void set_lr(double lr);

  /// One more group, after the others. Errors: as in the constructor.
  virtual void add_param_group(ParamGroup group);

  /// Moments and the like, for snapshots.
  std::span<StateList> state() { return state_; }

  std::span<const StateList> state() const { return state_; }

  virtual OptimizerState state_dict() const;
  /// Continues from `from`: copies of its tensors in the parameters' dtypes, its rates and other options.
  /// Errors: std::invalid_argument with PyTorch's texts for other groups, and for tensors of other shapes than the
  ///     parameters', which PyTorch takes. Nothing has changed then.
  /// Source: torch.optim.Optimizer.load_state_dict.
  virtual void load_state_dict(const OptimizerState& from);

  /// Sets list `name` of parameter `i`, as a snapshot has it. Lists appear with their first use.
  void load_state(std::string_view name, std::size_t i, Tensor values);

  /// Rounds all parameters and state to a grid as the last part of each step, before it is
  /// recorded.
  void round_each_step(GridRounding rounding) { rounding_ = rounding; }

 protected:
  /// Requires: at least one parameter, all on one runtime.
  /// Errors: std::invalid_argument with PyTorch's text for a parameter that is given twice, which
  ///     tied weights are when both names are listed. (PyTorch only warns within a group.)
  Optimizer(std::vector<ParamGroup> groups, const GroupOptions& defaults);

  /// All of them as one group, with no options of its own.
  static std::vector<ParamGroup> one_group(std::vector<Variable> parameters);

  /// Everything of a step but its record: update() of each parameter with a gradient, rounding.
  virtual void update_all();

  const std::optional<GridRounding>& rounding() const { return rounding_; }

  /// For traces. Called seldom.
  virtual OptimizerInfo info() const { return {}; }

  /// Updates parameter `i` of `group`, whose gradient is defined.
  virtual void update(std::size_t i, const Group& group) = 0;
  /// Updates parameter `i` of `group`, whose gradient is sparse.
  /// Errors: std::runtime_error with PyTorch's text where an optimizer refuses such gradients,
  ///     which is what happens unless it says otherwise.
  virtual void update_rows(std::size_t i, const SparseRows& rows, const Group& group);
  /// Adds a list of undefined tensors, one per parameter, unless there is one of this name, and
  /// returns its index in state().
  std::size_t add_state(std::string name);
  /// The same for a list of counts, f32 scalars as PyTorch's (exact to 2^24).
  std::size_t add_count();
  /// State `list` of parameter `i`, created on first use filled with `value`.
  const Tensor& state_of(std::size_t list, std::size_t i, double value = 0.0);
  /// Adds one to the count of parameter `i` and returns it.
  double advance_count(std::size_t list, std::size_t i);
  /// Whether some group has a momentum other than 0.
  bool any_momentum() const;

  Runtime& runtime() const { return parameters_.front().runtime(); }

 private:
  void append(ParamGroup given);
  void take_step(const detail::StepOutcome& outcome);
  void round_all() const;
  detail::OptimizerView view() const;

  GroupOptions defaults_;
  std::vector<Variable> parameters_;
  std::vector<Group> groups_;
  std::vector<StateList> state_;
  std::optional<GridRounding> rounding_;
  std::unique_ptr<detail::StepRecord> record_;
};

}  // namespace lockstep::optim
