// The laws on a trace that was written before: by a simulation, by real ranks or by a recorder.
#pragma once

#include <span>
#include <string>

#include "lockstep/formats/jsonl.h"
#include "lockstep/laws/law.h"
#include "lockstep/laws/report.h"

namespace lockstep {

/// Checks the laws `ids` (empty: all trace laws) on a loaded trace. `policy.n_ranks` and
/// `policy.exact` are taken from the trace's header.
///
/// Returns: the report, without title and replay line. Its outcome is kHang when a rank ended
///     stuck and kError when one ended with an exception or without an end.
/// Errors: those of LawSet::make.
Result<Report> check_trace(const LoadedTrace& loaded,
                           const LawPolicy& policy,
                           std::span<const std::string> ids = {});

}  // namespace lockstep
