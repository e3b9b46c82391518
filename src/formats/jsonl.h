// Traces as JSON Lines: one file per rank and attempt, one complete line per event.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/trace/memory_trace.h"

namespace lockstep {

/// Facts about the run that every file's header line repeats.
struct TraceHeader {
  std::string run_id = {};
  std::string backend = "sim";
  std::string scenario = {};         ///< Path or title.
  std::string scenario_digest = {};  ///< hex64 of the scenario's text.
  std::int32_t n_ranks = 0;
  bool exact = false;         ///< Exact mode was on and proved.
  bool watched = false;       ///< Accesses to memory in flight were recorded.
  std::int32_t coverage = 1;  ///< Digests cover 1/coverage of each large tensor a step, in turn.
  /// Gradients and states were recorded in some steps only, as a budget allowed.
  bool sampled = false;
  std::string library = "lockstep";
  /// What the times of this rank count from: ranks that name the same clock can be compared in
  /// time. Empty: unknown, and outside the simulator each rank may have its own.
  std::string clock = {};

  /// Virtual ranks have one, whether it has a name or not.
  bool has_one_clock() const;
};

/// "a000.rank-00003.jsonl"
std::string rank_file_name(std::int32_t attempt, Rank rank);

/// Writes `trace` to `folder` as aNNN.rank-NNNNN.jsonl (docs/trace_format.md), in the place of a
/// trace that is there: once the bytes of all files are on the disk under temporary names, these
/// are renamed, and old ones that none of them has replaced go. The folder is made when missing.
/// `values` false leaves ValueEvents out, which are most of a large trace.
/// Errors: the folder cannot be made or written; where = the path.
Outcome write_jsonl(const MemoryTrace& trace,
                    const TraceHeader& header,
                    const std::string& folder,
                    bool values = true);

/// Removes the files that a trace has in `folder`, and no others. Errors: one cannot be removed.
Outcome remove_trace(const std::string& folder);

/// Writes one rank's events as they happen, so that a killed rank loses at most its last line: what
/// real processes use.
class JsonlStream final : public EventSink {
 public:
  /// Starts the file of `rank` and `attempt` in `folder`, which is made when missing.
  /// Errors: those of write_jsonl.
  static Result<std::unique_ptr<JsonlStream>> open(const std::string& folder,
                                                   const TraceHeader& header,
                                                   std::int32_t attempt,
                                                   Rank rank);
  ~JsonlStream() override;
  JsonlStream(const JsonlStream&) = delete;
  JsonlStream& operator=(const JsonlStream&) = delete;
  JsonlStream(JsonlStream&&) = delete;
  JsonlStream& operator=(JsonlStream&&) = delete;

  void on_event(const Event& event, const NameTable& names) override;
  /// Syncs and closes. Errors: a write failed, now or earlier (where = the path).
  Outcome close();

 private:
  JsonlStream(int file, std::string path) : file_(file), path_(std::move(path)) {}

  int file_;
  std::string path_;
  std::string failure_;
};

struct LoadedTrace {
  TraceHeader header;
  std::shared_ptr<MemoryTrace> trace;
  std::vector<std::string> notes;  ///< What was tolerated: "a000.rank-00001.jsonl:17: cut short".
};

/// Reads all rank files of a folder.
/// Errors: missing folder, no files, a line that is not valid (where = "file:line:column"), ranks
///     of different runs mixed. A missing end line is not an error: the rank died, and the trace
///     says so by lacking an EndEvent. A last line cut short by a kill is left out and noted.
Result<LoadedTrace> read_jsonl(const std::string& folder);

/// The same of one job whose nodes have left a folder each.
/// Errors: also where two folders hold the same file: one rank's events twice.
Result<LoadedTrace> read_jsonl(std::span<const std::string> folders);

/// Which folders hold parts of one job: those whose files name the same run, and none the same rank.
/// The others, and those that cannot be read, stand alone. Keeps the order of the first ones.
std::vector<std::vector<std::string>> folders_by_job(std::span<const std::string> folders);

/// One event as its JSON line, without newline: the grammar of docs/trace_format.md.
std::string to_json_line(const Event& event, const NameTable& names);

}  // namespace lockstep
