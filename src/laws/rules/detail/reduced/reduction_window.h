// What becomes of a wrapper's gradients between two steps.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/laws/finding.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// Why a step may have used gradients that were not reduced, and the parameter that shows it.
struct UnreducedEvidence {
  Cause cause = Cause::kNone;
  NameId unused = kNoName;  ///< A parameter that got no gradient.
};

/// One rank's view of one wrapper since the last step.
class ReductionWindow {
 public:
  struct TensorState {
    NameId name = kNoName;
    bool unreduced = false;    ///< Holds a contribution newer than its last reduction.
    bool contributed = false;  ///< Since the last step.
    bool absent = false;       ///< Undefined in what the step used.
    bool ever = false;         ///< Contributed in any step.
  };

  void on_forward(const ForwardEvent& forward);
  void on_grad(const GradEvent& grad, const NameTable& names);

  /// A reduction has ended. `n_steps`: of all optimizers of the rank so far.
  ///
  /// no_sync can join reductions only where nothing comes between them: gradients that are cleared,
  /// or that another optimizer's step had a share in, were reduced for another reason.
  void on_reduction(std::int64_t n_steps);

  /// Gradients were cleared: reductions before and after have nothing to do with one another.
  void part() { parted_ = true; }

  /// A step has been taken.
  void restart();

  const std::vector<TensorState>& tensors() const { return tensors_; }

  bool any_unreduced() const;

  /// More than one reduction before this step, with nothing between them that parts them.
  bool reduced_repeatedly() const { return n_in_a_row_ > 1; }

  /// Whether a gradient was ever computed for the parameter.
  bool ever_used(NameId name) const;

  /// Why gradients of this window may not have been reduced.
  UnreducedEvidence evidence(const WrapEvent& wrap, const NameTable& names) const;

 private:
  TensorState& tensor(NameId name, std::size_t hint);

  std::vector<TensorState> tensors_;  // In layout order: the layout seldom changes.
  std::int32_t n_reductions_ = 0;
  std::int32_t n_in_a_row_ = 0;  // Reductions with nothing between them that parts them.
  bool parted_ = false;          // Gradients were cleared since the last reduction.
  std::int64_t n_steps_ = 0;     // Of all optimizers of the rank, at the last reduction.
  bool wrapped_forward_ = false;
  bool last_synchronizing_ = true;
};

}  // namespace lockstep::laws
