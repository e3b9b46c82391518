// The sections of a run, one per file. `id` is the run's prefix of ids in the page: "run-1".
#pragma once

#include <string>

#include "lockstep/harness/report/detail/html.h"
#include "lockstep/harness/report/html_report.h"
#include "lockstep/harness/timing/run_times.h"

namespace lockstep::page {

/// "All laws hold", "2 findings", "Hang", "Error".
std::string verdict_text(const Report& report);
/// "good", "bad": for colours; the words stand next to them.
std::string verdict_class(const Report& report);

void write_verdict(const RunView& run, Html& out);
void write_findings(const RunView& run, const std::string& id, Html& out);
void write_laws(const RunView& run, const std::string& id, Html& out);

// The pictures need a trace.
void write_timeline(const RunView& run, const std::string& id, Html& out);
void write_curves(const RunView& run, const std::string& id, Html& out);
void write_heat_map(const RunView& run, const std::string& id, Html& out);
void write_buckets(const RunView& run, const std::string& id, Html& out);
void write_waiting(const RunView& run, const std::string& id, Html& out);
/// Requires: the run has times.
void write_times(const RunTimes& times, const std::string& id, Html& out);

}  // namespace lockstep::page
