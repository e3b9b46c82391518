// Reproductions: scenario files that also say how their run was made.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep {

/// The table `replay` of a reproduction: a scenario file that also says how its run was made and
/// what it must show again.
struct Replay {
  std::string variant;
  std::optional<std::uint64_t> schedule_seed;
  std::string schedule;  ///< The strategy instead of the file's: a schedule or a name; or empty.
  std::string folder;    ///< Where the original lay: its data files are relative to it.
  std::string scenario;  ///< The original's name there, in what `lockstep explore` keeps; or empty.
  std::vector<std::string> settings;  ///< "key=value", as given to --set.
  std::uint64_t trace_digest = 0;
  std::uint64_t result_digest = 0;
};

/// The table `replay` of a reproduction file.
/// Errors: those of load_scenario; a file without the table.
Result<Replay> load_replay(const std::string& path);
/// `text`, a scenario file, followed by a table `replay`.
std::string with_replay(std::string text, const Replay& replay);
/// The text of the scenario file at `path`, followed by a table `replay`.
Result<std::string> render_reproduction(const std::string& path, const Replay& replay);

}  // namespace lockstep
