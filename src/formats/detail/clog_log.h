// One log of torchcomms' Clog hook: every call of one rank, with what it reduced and from which root.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/formats/detail/flight_dump.h"

namespace lockstep::detail {

/// Whether these bytes begin as a Clog log does.
bool is_clog(std::string_view bytes);

/// Reads a log of format 1, written by one process. The communicator that it registers first is taken for
/// the one of all ranks, and its rank for the process's. A last line without a newline is dropped: the
/// process was killed as it wrote.
///
/// Replays of CUDA graphs are counted and left out: the log does not keep their order.
/// Errors: where = "path:line:column".
/// Source: torchcomms, comms/torchcomms/hooks/clog (log format version 1).
Result<FlightDump> read_clog(std::string_view bytes, const std::string& path);

/// Where a log was written without the events of a call's life: a call that every rank of its group has made
/// is taken to have ended, and any other one not.
void infer_ends(std::span<FlightDump> dumps);

}  // namespace lockstep::detail
