// Reproductions: a scenario file that also says how its run was made.
#include "lockstep/harness/format/replay.h"

#include "lockstep/base/disk_files.h"
#include "lockstep/base/text.h"
#include "lockstep/harness/format/document.h"
#include "lockstep/harness/format/load.h"
#include "lockstep/harness/format/section.h"
#include "lockstep/harness/format/sections.h"
#include "lockstep/harness/scenario/scenario.h"

namespace lockstep {
namespace {

/// A digest is written as hexadecimal digits.
struct ReplayTable : Replay {
  std::string trace{"0"};
  std::string result{"0"};
};

const Section<ReplayTable>& replay_section() {
  using Table = ReplayTable;
  static const Section<Table> section("replay", [](Section<Table>& it) {
    it.add("variant", &Replay::variant, "The variant that ran.").shown("the base");
    it.add("schedule_seed", &Replay::schedule_seed, "Instead of that of `sim`.");
    it.add("schedule", &Replay::schedule, "The strategy instead of that of `sim`.");
    it.add("folder", &Replay::folder, "Where the original lay: data files are relative to it.");
    it.add("scenario", &Replay::scenario, "The original's name there.");
    it.add("settings", &Replay::settings, "`key=value`, as given to `--set`.");
    it.add("trace_digest", &Table::trace, "What must come again.");
    it.add("result_digest", &Table::result, "What must come again.");
    it.all_stays();
  });
  return section;
}

std::uint64_t digest(const TableReader& table, std::string_view key, const std::string& text) {
  const auto word = parse_hex64(text);
  if (!word) {
    table.problem().report("'" + table.path(key) + "' is not a digest: '" + text + "'",
                           table.where(key));
  }
  return word.value_or(0);
}

}  // namespace

std::vector<SchemaSection> replay_sections() { return {replay_section().described()}; }

Result<Setting> parse_setting(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return Error{"a setting is key=value, such as loop.steps=3, not '" + text + "'", "--set"};
  }
  return Setting{text.substr(0, equals), text.substr(equals + 1)};
}

Result<Replay> load_replay(const std::string& path) {
  const Result<TomlNode> document = read_toml(path);
  if (!document.ok()) return document.error();
  const TomlNode* node = document.value().find("replay");
  if (node == nullptr || !node->is_table()) {
    return Error{"this file has no table 'replay'; `lockstep run` takes plain scenarios", path};
  }
  Problem problem;
  TableReader table(*node, replay_section().name(), problem);
  ReplayTable replay;
  replay_section().read(table, replay);
  replay.trace_digest = digest(table, "trace_digest", replay.trace);
  replay.result_digest = digest(table, "result_digest", replay.result);
  table.finish();
  if (problem.found()) return problem.first();
  return Replay(std::move(replay));
}

std::string with_replay(std::string text, const Replay& replay) {
  std::string result = std::move(text);
  if (!result.empty() && result.back() != '\n') result += '\n';
  result += "\n[replay]\n";
  if (!replay.variant.empty()) result += "variant = " + toml_string(replay.variant) + "\n";
  if (replay.schedule_seed) {
    result += "schedule_seed = " + std::to_string(*replay.schedule_seed) + "\n";
  }
  if (!replay.schedule.empty()) result += "schedule = " + toml_string(replay.schedule) + "\n";
  if (!replay.folder.empty()) result += "folder = " + toml_string(replay.folder) + "\n";
  if (!replay.scenario.empty()) result += "scenario = " + toml_string(replay.scenario) + "\n";
  std::vector<std::string> settings;
  settings.reserve(replay.settings.size());
  for (const std::string& setting : replay.settings) settings.push_back(toml_string(setting));
  if (!settings.empty()) result += "settings = [" + join(settings) + "]\n";
  result += "trace_digest = \"" + hex64(replay.trace_digest) + "\"\n";
  result += "result_digest = \"" + hex64(replay.result_digest) + "\"\n";
  return result;
}

Result<std::string> render_reproduction(const std::string& path, const Replay& replay) {
  DiskFiles files;
  Result<std::string> text = files.read(path);
  if (!text.ok()) return text.error();
  return with_replay(std::move(text).value(), replay);
}

}  // namespace lockstep
