// What an optimizer leaves in the trace: its options, the gradients it used, what they made of the
// parameters and its state.
#pragma once

#include <cstdint>
#include <memory_resource>
#include <optional>
#include <span>
#include <vector>

#include "lockstep/autograd/sparse_rows.h"
#include "lockstep/optim/optimizer.h"
#include "lockstep/trace/recorder.h"

namespace lockstep::optim::detail {

/// How a step went.
struct StepOutcome {
  double scale = 1.0;
  bool found_inf = false;
};

/// What is recorded of an optimizer, as it is now.
struct OptimizerView {
  std::span<const Variable> parameters;
  std::span<const Group> groups;
  std::span<const StateList> state;
};

/// Knows which parameters belong to which wrapper and what their events call them. That may change
/// between two steps: parameters are frozen and thawed, wrapped and added.
class StepRecord {
 public:
  /// `memory`: of the rank, which outlives its optimizers.
  explicit StepRecord(std::pmr::memory_resource& memory)
      : marks_(&memory),
        unnamed_(&memory),
        parts_(&memory),
        told_(&memory),
        indices_(&memory),
        names_(&memory),
        values_(&memory),
        scratch_(&memory) {}

  /// Before any of the following, each time. Cheap while nothing has changed.
  void prepare(Recorder& recorder, const OptimizerView& view);

  /// Whether there are as many lists of state as at the last prepare().
  bool knows_lists_of(const OptimizerView& view) const { return n_lists_ == view.state.size(); }

  /// Whether some group has options that were not recorded yet.
  bool has_news(const OptimizerView& view) const;
  /// The options of those groups.
  void record_options(const OptimizerView& view, const OptimizerInfo& info);
  void record_used(const OptimizerView& view);
  /// Moves the positions of the wrappers on to the next step.
  void record_step(const OptimizerView& view, const StepOutcome& outcome);
  /// The state as it has been loaded.
  void record_loaded(const OptimizerView& view);
  [[gnu::noinline]] void record_cleared(bool to_none);  // A row of bench/instructions.py.

 private:
  /// The trained parameters of one wrapper.
  struct Part {
    std::int32_t wrapper;
    std::pmr::vector<std::size_t> indices;
    std::pmr::vector<const Tensor*> data;  ///< Where the values of these are, as long as they live.
    std::size_t first = 0;                 ///< Of them, in the optimizer's own list.
    LayoutId names = kNoLayout;
    LayoutId state_names = kNoLayout;
  };

  /// What the parts and names of one parameter follow from.
  struct Mark {
    const VariableState* state;
    NameId name;
    std::int32_t wrapper;
    bool trained;

    friend bool operator==(const Mark&, const Mark&) = default;
  };

  static Mark mark_of(const Variable& parameter);
  bool is_current(const Recorder& recorder, const OptimizerView& view) const;
  /// Whether that changes what events call them or whose they are.
  bool take_marks(std::span<const Variable> parameters, bool same_list);
  void name_unnamed(std::span<const Variable> parameters);
  Part& part_of(std::int32_t wrapper);
  void record_found(const Part& part);
  void put_in_order(std::span<std::size_t> indices, std::int32_t wrapper) const;
  NameId name_of(std::size_t i) const;
  void record_tensors(const OptimizerView& view, const Part& part);
  void record_lists(const OptimizerView& view, const Part& part, StatePoint point);
  void name_part(Part& part, std::span<const StateList> state);
  void record_group(const OptimizerView& view, std::size_t g, const OptimizerInfo& info);
  /// Of the wrappers of a group's parameters, in ascending order, the one after `last`.
  std::optional<std::int32_t> next_wrapper(const Group& group,
                                           std::optional<std::int32_t> last) const;

  /// The last step with parameters that no wrapper has.
  struct Alone {
    LayoutId names = kNoLayout;
    std::int32_t opt = 0;
  };

  Recorder* recorder_ = nullptr;
  Alone alone_;
  std::pmr::vector<Mark> marks_;  // By parameter.
  // By parameter, of those that no wrapper has named; empty: none.
  std::pmr::vector<NameId> unnamed_;
  std::size_t n_lists_ = 0;  // Of state.
  std::pmr::vector<Part> parts_;
  std::pmr::vector<GroupOptions> told_;    // By group: the options that were recorded last.
  std::pmr::vector<std::size_t> indices_;  // Scratch.
  std::pmr::vector<NameId> names_;         // Scratch.
  std::pmr::vector<double> values_;        // Scratch.
  WholeGradients used_;                    // Scratch.
  std::pmr::vector<const Tensor*> scratch_;
};

}  // namespace lockstep::optim::detail
