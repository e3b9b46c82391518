// Checkpoints of one rank that another rank replaces later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "lockstep/laws/finding.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// One file has one writer, in the same step and in later ones:
///
///     rank 0   step 4: writes F
///     rank 1                       step 12: writes F     what rank 0 kept there is lost
///
/// Ranks that take turns at a file both come back to it.
class ReplacedFiles {
 public:
  struct Write {
    std::int32_t attempt = 0;
    std::int64_t step = 0;
    std::int32_t rank = 0;
    std::uint64_t digest = 0;  ///< 0: not known.
  };

  void on_write(const Write& write, const std::string& path);

  /// "A-written-over", of the first such file.
  std::optional<Advice> advice() const;

 private:
  static constexpr std::size_t kMostFiles = 4096;

  /// A rank's writes of one file.
  struct Span {
    std::int64_t first = 0;
    std::int64_t last = 0;
    std::uint64_t digest = 0;  // Of the last.
  };

  using File = std::pair<std::int32_t, std::string>;  // Attempt, path.

  std::map<File, std::map<std::int32_t, Span>> files_;
};

}  // namespace lockstep::laws
