// The file that one shard of a command leaves, and what `lockstep merge` makes of several: JSON Lines
// with a header, a line per result and a last line, which a file that was cut short lacks.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/enum_names.h"
#include "lockstep/base/error.h"
#include "lockstep/harness/explore/parts/part_line.h"
#include "lockstep/harness/explore/parts/shard.h"

namespace lockstep::explore {

/// What was shared out.
enum class SharedWork : std::uint8_t {
  kRuns,       ///< Runs of one scenario.
  kJobs,       ///< Random correct jobs.
  kScenarios,  ///< A folder of scenarios.
};

}  // namespace lockstep::explore

namespace lockstep {

template <>
inline constexpr EnumNames<3> kEnumNames<explore::SharedWork> = {"runs", "jobs", "scenarios"};

}  // namespace lockstep

namespace lockstep::explore {

/// Something that results depend on, by the name that users know: {"--seed", {"7"}}.
struct Fact {
  std::string name;
  std::vector<std::string> values;

  friend bool operator==(const Fact&, const Fact&) = default;
};

struct PartHeader {
  SharedWork work = SharedWork::kRuns;
  Shard shard{};
  std::string library{};      ///< "lockstep 0.1.0"
  std::vector<Fact> facts{};  ///< All of them equal: parts of one run.

  /// The values of a fact; none when it is not there.
  std::span<const std::string> values(std::string_view name) const;
  /// The only value of a fact, or empty.
  std::string value(std::string_view name) const;
};

/// A part as read: lines are looked at one by one, since there may be a million.
class Part {
 public:
  /// Errors: a file that cannot be read, a header that makes no sense, a missing or wrong last line.
  static Result<Part> read(const std::string& path);

  const std::string& path() const { return path_; }

  const PartHeader& header() const { return header_; }

  /// Calls `look` with each line between header and end. Errors: the first of a line, or of `look`.
  Outcome each(const std::function<Outcome(PartLine&)>& look) const;

  /// "part.json:1:COLUMN" of what the header says under `key`.
  std::string place_of(const std::string& key) const;

 private:
  std::string path_;
  std::string text_;
  PartHeader header_;
  std::size_t first_ = 0;  ///< Where the lines begin,
  std::size_t end_ = 0;    ///< and where the last line does.
};

/// Header, lines and last line as the file's text. Requires: each line is a JSON object.
std::string render_part(const PartHeader& header, std::span<const std::string> lines);

/// Reads the parts of one run, all of them and each once, in the order of their shards.
/// Errors: those of Part::read; parts of another run, another version or another split; one that is
///     missing or there twice. The place is that in the file that does not fit the first.
Result<std::vector<Part>> read_parts(std::span<const std::string> paths);

}  // namespace lockstep::explore
