#include "lockstep/laws/run_outcome.h"

#include <algorithm>

namespace lockstep {

std::optional<RunOutcome> parse_run_outcome(std::string_view name) {
  const auto* const found = std::find(kRunOutcomeNames.begin(), kRunOutcomeNames.end(), name);
  if (found == kRunOutcomeNames.end()) return std::nullopt;
  return static_cast<RunOutcome>(found - kRunOutcomeNames.begin());
}

}  // namespace lockstep
