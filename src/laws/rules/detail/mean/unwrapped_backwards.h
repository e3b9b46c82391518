// Ranks that compute gradients which nothing reduces, as far as a trace shows.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "lockstep/laws/finding.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// Backward passes of several ranks in an attempt in which no model is wrapped, no loop was seen that reduces gradients
/// by itself, and no step was recorded: without this word, a program that forgot its wrapper would pass all laws like
/// one that did everything right. Where steps are recorded, as the simulator does, what they leave is compared.
class UnwrappedBackwards {
 public:
  void on_event(const Event& event);
  /// A wrapper, or a step.
  void on_followed(const Event& event);
  /// Of losses.
  void on_cohort(const CohortEvent& event);

  /// "A-nothing-wrapped", about what was checked: ranks may train models of their own, or share one in another way.
  std::optional<Advice> advice() const;

 private:
  std::map<std::int32_t, std::set<Rank>> ranks_;  // By attempt.
  std::set<std::int32_t> followed_;               // Attempts.
};

}  // namespace lockstep::laws
