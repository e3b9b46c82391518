// `lockstep zoo`: every known bug, its repair and its healthy look-alikes, as a scoreboard.
#include "lockstep/harness/cli/zoo.h"

#include <algorithm>
#include <utility>

#include "lockstep/harness/cli/commands.h"
#include "lockstep/harness/cli/own_scenarios.h"
#include "lockstep/harness/cli/progress_line.h"

namespace lockstep::cli {

ExitCode zoo(const ZooArguments& arguments, Terminal& terminal) {
  const std::string folder = arguments.folder.empty() ? own_scenarios() : arguments.folder;
  const std::vector<std::string> files =
      arguments.folder.empty() ? zoo_files() : scenarios_below(folder);
  if (files.empty()) return bad_input(terminal, "lockstep zoo: no scenarios in '" + folder + "'");
  const Result<std::vector<Scenario>> scenarios = load_all_variants(files);
  if (!scenarios.ok()) return bad_input(terminal, scenarios.error().text());

  if (!arguments.shard.empty()) {
    return zoo_shard(arguments, scenarios.value(), folder, terminal);
  }
  std::vector<ZooRow> rows;
  rows.reserve(scenarios.value().size());
  ProgressLine progress(terminal);
  for (const Scenario& scenario : scenarios.value()) {
    progress.count(rows.size(), scenarios.value().size(), "scenarios");
    rows.push_back(zoo_row(scenario, folder));
  }
  progress.clear();
  return report_zoo(std::move(rows), arguments.json, terminal);
}

ExitCode report_zoo(std::vector<ZooRow> rows, bool json, Terminal& terminal) {
  sort_rows(rows);
  terminal.out << (json ? render_zoo_json(rows) : render_zoo_text(rows));
  const bool all_met =
      std::ranges::all_of(rows, [](const ZooRow& row) { return row.complaints.empty(); });
  return all_met ? ExitCode::kOk : ExitCode::kFindings;
}

}  // namespace lockstep::cli
