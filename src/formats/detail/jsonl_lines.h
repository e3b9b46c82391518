// The lines of a trace's files, one at a time: what whole folders and growing ones are read with.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/formats/jsonl.h"
#include "lockstep/trace/event.h"

namespace lockstep::detail {

class FieldReader;

/// The largest world that this many files may speak of. Each rank takes memory, also one without a
/// file, so a few hundred bytes must not ask for gigabytes.
std::int64_t most_ranks(std::size_t n_files);

/// Reads lines of the files of one folder, and holds what must be alike in all of them.
class JsonlLines {
 public:
  JsonlLines(std::shared_ptr<NameTable> names, std::int64_t n_ranks_most);
  ~JsonlLines();
  JsonlLines(const JsonlLines&) = delete;
  JsonlLines& operator=(const JsonlLines&) = delete;
  JsonlLines(JsonlLines&&) = delete;
  JsonlLines& operator=(JsonlLines&&) = delete;

  /// Reads the first line of a file. `where` is "path:line".
  /// Returns: the rank that the file is about, -1 = several.
  /// Errors: where = "path:line:column".
  Result<std::int32_t> header(std::string_view line, const std::string& where);

  /// Reads any other line of a file about `file_rank`.
  /// Returns: the event, whose spans are valid until the next call.
  /// Errors: as header().
  Result<Event> event(std::string_view line, const std::string& where, std::int32_t file_rank);
  /// The event was taken: those of its rank that follow have larger numbers.
  void accept(const Event& event);

  /// Of all files so far, or nothing before the first one.
  const std::optional<TraceHeader>& header() const { return header_; }

  const std::shared_ptr<NameTable>& names() const { return names_; }

 private:
  struct Last {
    std::uint64_t index = 0;
    bool known = false;
    bool is_value = false;
    bool new_file = false;   ///< Nothing of its newest file was accepted yet.
    std::uint64_t base = 0;  ///< What is added to the numbers of that file.
  };
  struct Line;

  void read_header(FieldReader& reader, std::int32_t& file_rank);
  void read_event(FieldReader& reader, std::int32_t file_rank, Event& event);

  std::shared_ptr<NameTable> names_;
  std::int64_t n_ranks_most_;
  std::optional<TraceHeader> header_;
  std::vector<Last> last_;      // By rank.
  std::unique_ptr<Line> line_;  // Owns what the last event points into.
};

}  // namespace lockstep::detail
