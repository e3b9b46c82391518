// The file of one rank while it is written: buffered lines, and a last line that can be taken back.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/types.h"
#include "lockstep/formats/jsonl.h"

namespace lockstep::python {

/// Appends lines to a trace file. Lines wait in memory until flush() or kMostWaiting bytes; flushed
/// ones survive the death of the process. A child made by fork writes nothing.
class RankFile {
 public:
  static constexpr std::size_t kMostWaiting = std::size_t{1} << 18U;

  /// Starts the file of `rank` and `attempt` in `folder`. Errors: those of JsonlStream::open.
  static Result<std::unique_ptr<RankFile>> open(const std::string& folder,
                                                const TraceHeader& header,
                                                std::int32_t attempt,
                                                Rank rank);
  ~RankFile();
  RankFile(const RankFile&) = delete;
  RankFile& operator=(const RankFile&) = delete;
  RankFile(RankFile&&) = delete;
  RankFile& operator=(RankFile&&) = delete;

  /// Requires: each line ends with its newline.
  void append(std::string_view lines);
  /// Appends and flushes a line that the next append() takes back.
  void append_for_now(std::string_view line);
  /// Errors: a write failed, now or earlier (where = the path); nothing is written after that.
  Outcome flush();
  /// From now on what waits is written out when this process aborts, as backends do over calls that
  /// do not match. The last file that asks for it has it.
  void flush_on_abort();
  /// Flushes, syncs and closes.
  Outcome close();

 private:
  RankFile(int file, std::string path);

  static void on_abort(int signal);

  void take_back();
  void fail(const char* what);
  bool is_writable() const;

  int file_;
  std::string path_;
  std::int64_t owner_;  // The process.
  std::string waiting_;
  std::int64_t kept_size_ = -1;  // The file without the line for now, -1 = there is none.
  std::string failure_;
};

}  // namespace lockstep::python
