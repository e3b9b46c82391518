// `lockstep zoo`: every known bug, its repair and its healthy look-alikes, as a scoreboard.
#include "cli/zoo.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "cli/commands.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

/// Folders of the project's own scenarios that are bugs or are taken for bugs.
constexpr std::array<std::string_view, 3> kZooFolders = {"zoo", "kill_matrix", "healthy"};

/// The project's scenarios: the source tree this was built from, or where they were installed.
std::string own_scenarios() {
  const std::string source = LOCKSTEP_SOURCE_SCENARIOS;
  return fs::is_directory(fs::path(source) / "zoo") ? source : LOCKSTEP_INSTALLED_SCENARIOS;
}

/// Adds every scenario file below `folder`, by name.
void add_files(const fs::path& folder, std::vector<std::string>& files) {
  std::error_code ignored;  // A folder that cannot be read is one without scenarios.
  std::vector<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder, ignored)) {
    if (entry.path().extension() == ".toml") found.push_back(entry.path().string());
  }
  std::sort(found.begin(), found.end());
  files.insert(files.end(), found.begin(), found.end());
}

}  // namespace

ExitCode zoo(const ZooArguments& arguments, Terminal& terminal) {
  const std::string folder = arguments.folder.empty() ? own_scenarios() : arguments.folder;
  std::vector<std::string> files;
  if (arguments.folder.empty()) {
    for (const std::string_view name : kZooFolders) add_files(fs::path(folder) / name, files);
  } else {
    add_files(folder, files);
  }
  if (files.empty()) return bad_input(terminal, "lockstep zoo: no scenarios in '" + folder + "'");
  const Result<std::vector<Scenario>> scenarios = load_all_variants(files);
  if (!scenarios.ok()) return bad_input(terminal, scenarios.error().text());

  std::vector<ZooRow> rows;
  rows.reserve(scenarios.value().size());
  for (const Scenario& scenario : scenarios.value()) rows.push_back(zoo_row(scenario, folder));
  sort_rows(rows);
  terminal.out << (arguments.json ? render_zoo_json(rows) : render_zoo_text(rows));
  const bool all_met = std::all_of(
      rows.begin(), rows.end(), [](const ZooRow& row) { return row.complaints.empty(); });
  return all_met ? ExitCode::kOk : ExitCode::kFindings;
}

}  // namespace lockstep::cli
