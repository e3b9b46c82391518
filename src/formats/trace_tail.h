// A trace folder that is still being written, read as it grows.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/formats/jsonl.h"
#include "lockstep/trace/recorder.h"

namespace lockstep {

namespace detail {
class JsonlLines;
}  // namespace detail

/// Follows the rank files of a folder. Each poll() delivers what was written since the last one.
///
/// A line that has no newline yet waits for it. So does an `end` in the last line of a rank's last
/// file: a recorder takes it back when a rank that seemed stuck goes on.
///
/// Not synchronised with the writers, who append whole lines.
class TraceTail {
 public:
  explicit TraceTail(std::string folder);
  ~TraceTail();
  TraceTail(const TraceTail&) = delete;
  TraceTail& operator=(const TraceTail&) = delete;
  TraceTail(TraceTail&&) noexcept;
  TraceTail& operator=(TraceTail&&) noexcept;

  /// Delivers each rank's new events in their order; `most_bytes` of a file are read at once.
  /// A folder that does not exist yet, or is empty, is not an error.
  /// Returns: the number of events.
  /// Errors: those of read_jsonl() about lines and files of different runs; after one, poll() does
  ///     nothing but repeat it.
  Result<std::int64_t> poll(EventSink& sink, std::int64_t most_bytes = kMostBytes);

  /// Of all files so far; nothing before the first line of one.
  const std::optional<TraceHeader>& header() const;
  /// Shared by all events.
  const std::shared_ptr<NameTable>& names() const;

  static constexpr std::int64_t kMostBytes = std::int64_t{16} << 20U;

 private:
  /// How far a file has been read.
  struct File {
    std::string path;
    std::int64_t at = 0;  ///< Bytes: the beginning of the next line.
    std::int64_t n_lines = 0;
    std::int32_t rank = -1;
  };

  Result<std::int64_t> read_all(EventSink& sink, std::int64_t most_bytes);
  Outcome find_files();
  /// Reads the first line of a file, where it is there.
  Outcome begin(File& file);
  Result<std::int64_t> read(File& file, bool is_last, EventSink& sink, std::int64_t most_bytes);

  std::string folder_;
  std::unique_ptr<detail::JsonlLines> lines_;
  std::map<std::string, File> files_;  // By path: attempt after attempt.
  std::optional<Error> failure_;
};

}  // namespace lockstep
