#include "lockstep/harness/explore/search/regressions.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "lockstep/base/disk_files.h"
#include "lockstep/base/text.h"
#include "lockstep/harness/format/load.h"
#include "lockstep/harness/format/replay.h"
#include "lockstep/tensor/digest.h"

namespace lockstep::explore {
namespace {

namespace fs = std::filesystem;

constexpr const char* kScenarioSuffix = ".toml";

std::string folder_of(const std::string& path) {
  std::error_code code;
  return fs::absolute(path, code).lexically_normal().parent_path().string();
}

std::string file_name(const std::string& path) { return fs::path(path).filename().string(); }

std::vector<std::string> toml_files(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code code;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, code)) {
    if (entry.path().extension() == kScenarioSuffix) files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string words(const Setting& setting) { return setting.key + "=" + setting.value; }

}  // namespace

Result<std::vector<Attempt>> load_regressions(const std::string& folder,
                                              const std::string& path,
                                              const std::string& variant) {
  std::vector<Attempt> attempts;
  for (const std::string& file : toml_files(folder)) {
    const Result<Replay> replay = load_replay(file);
    if (!replay.ok()) return replay.error();
    const Replay& kept = replay.value();
    const bool same = kept.scenario == file_name(path) && kept.folder == folder_of(path) &&
                      kept.variant == variant;
    if (!same) continue;
    Attempt attempt;
    attempt.schedule = kept.schedule;
    for (const std::string& text : kept.settings) {
      Result<Setting> setting = parse_setting(text);
      if (!setting.ok()) return Error{setting.error().message, file};
      attempt.settings.push_back(std::move(setting).value());
    }
    attempts.push_back(std::move(attempt));
  }
  return attempts;
}

Result<std::string> keep_regression(const std::string& folder,
                                    const std::string& path,
                                    const SearchOptions& options,
                                    const FoundFailure& failure) {
  Replay replay;
  replay.variant = options.variant;
  replay.schedule = failure.attempt.schedule;
  replay.folder = folder_of(path);
  replay.scenario = file_name(path);
  for (const Setting& setting : options.settings) replay.settings.push_back(words(setting));
  for (const Setting& setting : failure.attempt.settings) {
    replay.settings.push_back(words(setting));
  }
  replay.trace_digest = failure.trial.trace_digest;
  replay.result_digest = failure.trial.result_digest;
  const Result<std::string> text = render_reproduction(path, replay);
  if (!text.ok()) return text.error();
  const std::string about = replay.folder + "/" + with_replay("", replay);
  const std::uint64_t digest =
      sm64(about.data(), static_cast<std::int64_t>(about.size()), DType::kU8);
  const std::string name =
      fs::path(path).stem().string() + "-" + hex64(digest).substr(0, 8) + ".toml";
  const std::string file = (fs::path(folder) / name).string();
  DiskFiles files;
  const Outcome made = files.make_folder(folder);
  if (!made.ok()) return made.error();
  const Outcome written = files.publish(file, text.value());
  if (!written.ok()) return written.error();
  return file;
}

}  // namespace lockstep::explore
