// Findings as a person reads them: one block per likely cause, one line per place.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lockstep/laws/report.h"

namespace lockstep::laws {

/// Findings of one law, step, event, ranks and cause: they differ in their tensor only.
struct FindingGroup {
  const Finding* first = nullptr;
  std::size_t n = 0;
};

/// What one cause broke, or one law whose findings have no known cause.
struct FindingBlock {
  Cause cause = Cause::kNone;
  std::string law = {};  ///< Of the first finding.
  std::vector<FindingGroup> places = {};
};

/// The findings of `report`, which the result points into. Known causes come first; among these, and
/// in each block, the earlier attempt and step; then the number of the law.
std::vector<FindingBlock> blocks_of(const Report& report);

/// "step 0, after optimizer.step: `0.weight` (and 3 other tensors) on rank 3: differs ... (law
/// REPLICAS-EQUAL).": the sentence of the first finding without its cause, which the block names,
/// and without call sites that the message names.
std::string line_of(const FindingGroup& group);

}  // namespace lockstep::laws
