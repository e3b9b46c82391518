// Findings as notes on a timeline.
#pragma once

#include <vector>

#include "lockstep/laws/report.h"
#include "lockstep/trace/timeline.h"

namespace lockstep {

/// A note for each rank that a finding names; for rank 0 when it names none.
std::vector<TimelineNote> timeline_notes(const Report& report);

}  // namespace lockstep
