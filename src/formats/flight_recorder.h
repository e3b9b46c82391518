// Dumps of PyTorch's Flight Recorder as a trace, so that the laws can judge a job that hangs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/enum_names.h"
#include "lockstep/formats/jsonl.h"

namespace lockstep {

/// Who wrote the files that list the calls of a job's ranks. The word is the run_id of their trace.
enum class CallSource : std::uint8_t {
  kFlightRecorder,  ///< PyTorch: one dump per rank.
  kClog,            ///< torchcomms' Clog hook: one log per rank.
  kInspector,       ///< NCCL's Inspector plugin: one file per process.
  kRas,             ///< NCCL's RAS subsystem: one status per job.
};
template <>
inline constexpr EnumNames<4> kEnumNames<CallSource> = {
    "flight-recorder", "clog", "nccl-inspector", "nccl-ras"};

/// Reads the dumps of one run, or other files that list the calls of its ranks. What a file is shows in
/// its bytes; the header's `run_id` is the word of its CallSource.
///
/// Dumps of PyTorch's Flight Recorder are one file per rank: what `torch._C._distributed_c10d` dumps as JSON,
/// or the pickles that PyTorch writes when its watchdog fires. The last number of a file's name is
/// its rank; a rank without a file recorded nothing.
///
/// Each call becomes a posted event and, where it has ended, a completed one. Calls of a group are
/// numbered from the first one that all its dumps still hold; `notes` say which that is, and which
/// group is which. Every rank ends "stuck" when some call has not ended anywhere, and "ok"
/// otherwise. Steps are unknown: positions have opt = -1.
///
/// Flight Recorder dumps have no roots, no reduce operations and no tags; these are taken to be equal. Messages
/// are left out where older calls were overwritten, since nothing says which ones belong together.
///
/// Errors: no files, a file that cannot be read, two files of one rank, a dump of another format
///     (where = "file:line:column").
Result<LoadedTrace> read_flight_recorder(std::span<const std::string> files);

struct FlightFile {
  std::string name;  ///< "trace_rank_3"
  std::string bytes;
};

/// The calls of a trace as the dumps that PyTorch's watchdog would have written: a pickle of format 2
/// for each rank, which PyTorch's own viewer opens (torch.distributed.flight_recorder.fr_trace).
///
/// Dumps know calls alone. Of these, roots, reduce operations and tags are lost; every buffer has one
/// dimension; each site is a stack of one frame.
///
/// Errors: more than 4,096 ranks. Each dump names them all, whatever the trace holds of them.
Result<std::vector<FlightFile>> render_flight_recorder(const MemoryTrace& trace,
                                                       const TraceHeader& header);

}  // namespace lockstep
