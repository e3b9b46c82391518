// What the ranks of a run share, where a law about it is broken.
#pragma once

#include <string>

#include "lockstep/laws/report.h"
#include "lockstep/trace/memory_trace.h"

namespace lockstep::cli {

/// Where what ranks share begins to differ, and what was still equal before, for
/// Report::first_divergence. Empty when no law about replicas is broken.
std::string first_divergence(const Report& report, const MemoryTrace& trace);

}  // namespace lockstep::cli
