#include "lockstep/harness/cli/own_scenarios.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

/// Folders of bugs, and of what is taken for bugs.
constexpr std::array<std::string_view, 3> kZooFolders = {"zoo", "kill_matrix", "healthy"};

}  // namespace

std::string own_scenarios() {
  std::error_code ignored;  // Without /proc, the other places are left.
  const fs::path command = fs::read_symlink("/proc/self/exe", ignored);
  const fs::path beside = command.parent_path() / LOCKSTEP_SCENARIOS_FROM_COMMAND;
  for (const fs::path& folder : {beside.lexically_normal(), fs::path(LOCKSTEP_SOURCE_SCENARIOS)}) {
    if (fs::is_directory(folder / "zoo", ignored)) return folder.string();
  }
  return LOCKSTEP_INSTALLED_SCENARIOS;
}

std::vector<std::string> scenarios_below(const std::string& folder) {
  std::error_code ignored;  // A folder that cannot be read is one without scenarios.
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder, ignored)) {
    if (entry.path().extension() == ".toml") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::string> zoo_files() {
  std::vector<std::string> files;
  for (const std::string_view name : kZooFolders) {
    const auto found = scenarios_below((fs::path(own_scenarios()) / name).string());
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

}  // namespace lockstep::cli
