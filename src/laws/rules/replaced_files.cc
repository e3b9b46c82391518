#include "lockstep/laws/rules/detail/checkpoints/replaced_files.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace lockstep::laws {

void ReplacedFiles::on_write(const Write& write, const std::string& path) {
  const File file{write.attempt, path};
  if (files_.size() >= kMostFiles && !files_.contains(file)) return;
  const auto [known, is_first] =
      files_[file].try_emplace(write.rank, Span{write.step, write.step, write.digest});
  Span& span = known->second;
  if (is_first) return;
  if (write.step >= span.last) {
    span.last = write.step;
    span.digest = write.digest;
  }
}

std::optional<Advice> ReplacedFiles::advice() const {
  const auto replaces = [](const auto& later, const auto& earlier) {
    const bool known = later.second.digest != 0 && earlier.second.digest != 0;
    return known && later.second.first > earlier.second.last &&
           later.second.digest != earlier.second.digest;
  };
  for (const auto& [file, writers] : files_) {
    for (const auto& earlier : writers) {
      const auto later = std::ranges::find_if(
          writers, [&](const auto& other) { return replaces(other, earlier); });
      if (later == writers.end()) continue;
      return Advice{
          "A-written-over",
          fmt::format("rank {} overwrites {} after step {} with different contents: the version "
                      "that rank {} wrote after step {} is lost. Write from one rank, or name "
                      "files by a counter that all ranks share, unless this is intended.",
                      later->first,
                      file.second,
                      later->second.first,
                      earlier.first,
                      earlier.second.last)};
    }
  }
  return std::nullopt;
}

}  // namespace lockstep::laws
