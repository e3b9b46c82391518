// What one rank's process groups did last, as a dump or a log has it; and PyTorch's Flight Recorder's.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/formats/flight_recorder.h"
#include "lockstep/trace/event.h"

namespace lockstep::detail {

/// One call.
struct FlightEntry {
  std::string group;        ///< Name of its process group.
  std::string description;  ///< Of the group: "default_pg".
  std::int64_t group_number = 0;
  std::int64_t seq = 0;  ///< Calls of the group so far, on this rank: "collective_seq_id".
  CollectiveOp op = CollectiveOp::kBarrier;
  bool is_marker = false;      ///< Ends a coalesced group of calls; no call itself.
  bool may_be_uneven = false;  ///< Ranks may pass other sizes.
  std::int32_t peer = -1;      ///< Messages: group rank; -1: the first sender.
  std::int32_t root = -1;      ///< Group rank; -1: not known, or none.
  ReduceOp reduce = ReduceOp::kSum;
  std::int64_t count = 0;  ///< Elements of all inputs, of a receive: of all outputs.
  DType dtype = DType::kU8;
  bool on_device = false;
  bool completed = false;
  std::int64_t created_ns = 0;
  std::int64_t completed_ns = 0;  ///< 0: unknown.
  std::string file;               ///< The caller outside of PyTorch, where frames were recorded.
  std::int32_t line = 0;
};

struct FlightDump {
  CallSource source = CallSource::kFlightRecorder;
  std::int32_t rank = -1;
  std::string version;
  std::string library;                                      ///< "nccl 2.21.5", or empty.
  bool cut = false;                                         ///< Older calls were overwritten.
  std::vector<FlightEntry> entries;                         ///< In the order of the calls.
  std::map<std::string, std::vector<std::int32_t>> groups;  ///< World ranks, by name.
  std::vector<std::string> notes;                           ///< What the file says beside calls.
  bool ends_unknown = false;  ///< The file does not say which calls have ended.
};

/// A call by the name that libraries give it.
struct KnownCall {
  std::string_view name;
  CollectiveOp op;
  bool may_be_uneven = false;
};

/// Null: no library's name of a call.
const KnownCall* find_call(std::string_view name);

/// The description that marks the group of all ranks.
inline constexpr std::string_view kWorldGroup = "default_pg";

/// More ranks than a file may name.
inline constexpr std::int32_t kMostRanks = 1 << 20;

/// "3:17", counted from 1, of byte `at`.
std::string line_and_column(std::string_view text, std::size_t at);

/// Reads a dump of format 2: JSON, or the pickle that PyTorch itself writes.
///
/// `path` names the file in errors and its last number is the rank.
/// Errors: where = "path:line:column" for JSON, "path: byte N" for a broken pickle, "path" and the
///     number of the entry where a pickle holds something wrong.
Result<FlightDump> read_flight_dump(std::string_view bytes, const std::string& path);

}  // namespace lockstep::detail
