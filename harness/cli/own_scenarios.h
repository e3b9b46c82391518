// Where the project's own scenarios are.
#pragma once

#include <string>
#include <vector>

namespace lockstep::cli {

/// The folder of the project's scenarios: next to the installed command (PREFIX/share/lockstep),
/// else in the source tree it was built from, else where CMake was configured to install them.
std::string own_scenarios();

/// Every scenario file below `folder`, sorted by path. Empty when it cannot be read.
std::vector<std::string> scenarios_below(const std::string& folder);

/// The files of own_scenarios() that are bugs or are taken for bugs, folder by folder.
std::vector<std::string> zoo_files();

}  // namespace lockstep::cli
