// Why replicas differ, as far as what happened before shows it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/detail/forward_kinds.h"
#include "lockstep/laws/finding.h"
#include "lockstep/laws/rules/detail/parameters/loads.h"
#include "lockstep/laws/rules/detail/parameters/rewritten.h"
#include "lockstep/laws/rules/detail/parameters/starts.h"
#include "lockstep/laws/rules/detail/parameters/step_evidence.h"
#include "lockstep/laws/rules/detail/parameters/uneven_reads.h"

namespace lockstep::laws {

/// A tensor that was found to differ.
struct ReplicaDifference {
  Finding finding;
  StepPlace place;
  NameId tensor = kNoName;
  bool opts_differ = false;    ///< Ranks met here with different numbers of steps.
  bool is_of_few = false;      ///< Most tensors of its layout are equal.
  std::size_t n_parted = 1;    ///< Tensors that began to differ where it did, itself included.
  bool auxiliary = false;      ///< The program keeps it equal by itself.
  std::int32_t n_equal = -1;   ///< Steps that were finished where it was last equal.
  bool was_put_right = false;  ///< A step has left it equal, whatever it was at the start.
  std::int32_t interval = 0;   ///< Between two averages of the parameters.
};

/// What is known of a run when its differences are explained: at the end, since some evidence is
/// recorded after the parameters.
class DifferenceExplainer {
 public:
  struct Known {
    const Wrappers& wrappers;
    const ForwardKinds& forwards;
    const Starts& starts;
    const Rewritten& rewritten;
    const StepEvidences& steps;
    const Loads& loads;
    const UnevenReads& reads;
    const std::set<WrapperKey>& hooked;  ///< By a hook that does something else than averaging.
    std::int32_t n_ranks = 0;
    const NameTable& names;
  };

  explicit DifferenceExplainer(const Known& known) : known_(known) {}

  /// Completes the finding's message, cause, event and ranks.
  void explain(ReplicaDifference& open) const;

 private:
  /// Whether something had written to the tensor on some of the ranks since the last step.
  bool explain_by_writer(ReplicaDifference& open) const;
  void explain_by_evidence(ReplicaDifference& open) const;
  /// Of a gradient that some ranks had none of.
  Cause cause_of_absence(const ReplicaDifference& open) const;
  /// Whether it needed no gradient at wrapping.
  bool is_frozen(const ReplicaDifference& open) const;
  /// Whether the wrapper has never seen it.
  bool is_new(const ReplicaDifference& open) const;
  Cause cause_of_frozen(const ReplicaDifference& open) const;
  Cause cause_at_start(const ReplicaDifference& open) const;
  /// Of a write that only some ranks made.
  Cause cause_of_write(WrapperKey wrapper) const;
  /// This and what it asks may add to the message.
  Cause cause_of_step(const StepEvidence& evidence,
                      ReplicaDifference& open,
                      bool post_differs,
                      bool used_differs) const;
  /// Of a tensor that differs although all that goes into its update was equal.
  Cause cause_of_update(const StepEvidence& evidence, ReplicaDifference& open) const;
  Cause cause_of_gradients(const StepEvidence& evidence,
                           ReplicaDifference& open,
                           bool post_differs) const;
  /// Of gradients that were averaged alike and used otherwise: only what clipping does is taken for clipping.
  Cause cause_of_changes(const StepEvidence& evidence, ReplicaDifference& open) const;
  std::optional<std::size_t> index_of(LayoutId layout, NameId name) const;

  Known known_;
};

}  // namespace lockstep::laws
