// A training program run as a user would run it, and what the report says of it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "lockstep/run.h"

namespace lockstep::programs {

using Program = std::function<void(RankContext&)>;

/// In the simulator. A program that throws ends in the report.
Report simulated(const Program& program,
                 std::int32_t ranks,
                 const std::string& strategy = "run-to-block",
                 std::uint64_t seed = 0);

/// What went wrong with it as processes connected by Gloo, each in the same empty folder: the text
/// of a report, or empty when every process ended without a finding.
/// Requires: no other thread runs in this process.
std::string complaint_on_gloo(const Program& program,
                              std::int32_t ranks,
                              std::string_view ignored_advice = {});

/// Findings, advice and errors of a report, a line each: empty when it accuses no rank. What comes
/// from a wall clock is left out: which process is late depends on what else the machine does.
std::string accusations(const Report& report, std::string_view ignored_advice = {});

}  // namespace lockstep::programs
