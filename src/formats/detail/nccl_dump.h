// What NCCL itself says of a job: the status of its RAS subsystem and the files of its Inspector plugin.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/formats/detail/flight_dump.h"

namespace lockstep::detail {

/// Whether these bytes are a RAS status, or an Inspector file, as far as their first members show.
bool is_nccl_ras(std::string_view bytes);
bool is_nccl_inspector(std::string_view bytes);

/// Reads the answer to "set format json" and "status" of NCCL's RAS port: one dump for each rank of the
/// largest communicator that answered.
///
/// RAS counts each rank's launched operations by kind, without their order, sizes or ends. Each kind of
/// each communicator becomes a group of its own, whose calls begin at the last one that all who answered have
/// launched, which is taken to have ended if all ranks answered; at most kMostRasCalls follow. Kinds of which all
/// have launched equally many are left out. Ranks that did not answer made none, which the notes say.
/// Errors: where = "path:line:column".
/// Source: NCCL 2.28.7, src/ras/client_support.cc, the JSON format.
Result<std::vector<FlightDump>> read_nccl_ras(std::string_view bytes, const std::string& path);

inline constexpr std::int64_t kMostRasCalls = 16;

/// Reads what the Inspector plugin of one process wrote: a JSON object for each collective that has
/// completed. Sizes are bytes. The rank is that in the largest communicator. Objects about anything else than
/// a collective are left out. A last object that is cut off is dropped.
/// Errors: where = "path:line:column".
/// Source: NCCL, ext-profiler/inspector, output format 4.
Result<FlightDump> read_nccl_inspector(std::string_view bytes, const std::string& path);

}  // namespace lockstep::detail
