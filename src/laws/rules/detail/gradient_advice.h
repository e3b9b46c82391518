// What gradients show that breaks no law: values that are not finite, ranks that compute the same.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "lockstep/laws/finding.h"
#include "lockstep/laws/rules/detail/mean/open_reduction.h"
#include "lockstep/laws/rules/detail/mean/unwrapped_backwards.h"
#include "lockstep/laws/rules/detail/remarks.h"

namespace lockstep::laws {

/// Looks at every complete reduction, and at what is none.
class GradientAdvice {
 public:
  void on_reduction(const AlignmentKey& alignment,
                    const OpenReduction& open,
                    const NameTable& names);

  /// A loss, or anything else.
  void on_event(const Event& event) {
    unwrapped_.on_event(event);
    taken_elsewhere_.on_event(event, one_rank(event));
  }

  void on_losses(const CohortEvent& event) { unwrapped_.on_cohort(event); }

  void on_wrap(const Event& event, const WrapEvent& wrap, RankRange who) {
    unwrapped_.on_wrap(event, wrap, who);
  }

  void on_call(const Event& event, const CollectiveEvent& call, RankRange who) {
    unwrapped_.on_call(event, call, who);
  }

  /// A step that is skipped uses nothing: a loss scaler finds overflows on purpose.
  void on_step(const Event& event, const StepEvent& step, RankRange who);
  /// "A-non-finite": the first step that used a value that is not finite, and on which rank it came
  /// up; "A-same-gradients": in each of a wrapper's reductions, four at least, every rank put in the same bits;
  /// "A-nothing-wrapped"; "A-never-steps"; "A-taken-elsewhere".
  std::vector<Advice> advice(const NameTable& names) const;

 private:
  struct NonFinite {
    WrapperKey wrapper;
    std::int32_t step = 0;
    std::int32_t rank = -1;  ///< -1: every local gradient is finite, their reduction is not.
    NameId tensor = kNoName;
  };

  /// A wrapper's reductions that had any gradient.
  struct Reductions {
    NameId first = kNoName;  ///< Of a tensor of the first one.
    std::int64_t n = 0;
    std::int64_t n_same = 0;
  };

  static constexpr std::int64_t kFewest = 4;

  static std::optional<NonFinite> non_finite(const AlignmentKey& alignment,
                                             const OpenReduction& open,
                                             const NameTable& names);
  static bool are_same(const OpenReduction& open);
  std::vector<Advice> same_gradients(const NameTable& names) const;

  UnwrappedBackwards unwrapped_;
  Remarks taken_elsewhere_{LogKind::kTakenElsewhere};
  std::optional<NonFinite> suspect_;  // Until a step uses it, or is skipped.
  std::optional<NonFinite> used_;
  std::map<WrapperKey, Reductions> reductions_;
};

}  // namespace lockstep::laws
