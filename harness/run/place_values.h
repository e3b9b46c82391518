// The values of a finding: digests say that two ranks differ, these say by how much.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "lockstep/laws/report.h"
#include "lockstep/trace/memory_trace.h"

namespace lockstep {

/// For findings about a replicated tensor after a step (at wrapping, in evaluation, ...): the first
/// element that differs from the lowest rank that the finding does not name, both values, and, where
/// they are near, how many representable numbers they are apart. Goes into `Finding::element` and the message.
///
/// `repeat` makes the same run with RecordOptions::values, or gives null; it is called once, and
/// only if a finding needs it and the values of all ranks and steps take no more than
/// kMostValueBytes. A finding that the repetition does not show again stays as it was.
/// Deterministic as the run is.
void add_values(const std::function<std::shared_ptr<const MemoryTrace>()>& repeat,
                const MemoryTrace& trace,
                Report& report);

inline constexpr std::int64_t kMostValueBytes = std::int64_t{256} << 20U;

}  // namespace lockstep
