#include "lockstep/harness/explore/jobs/kept_jobs.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "lockstep/base/disk_files.h"
#include "lockstep/base/text.h"
#include "lockstep/harness/explore/jobs/random_jobs.h"
#include "lockstep/harness/format/load.h"
#include "lockstep/harness/format/replay.h"
#include "lockstep/tensor/digest.h"

namespace lockstep {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kKeptPrefix = "random-job-";

/// The end of the names of all jobs that were run under these settings.
std::string mark_of(const std::vector<Setting>& settings) {
  std::string words;
  for (const Setting& setting : settings) words += setting.key + "=" + setting.value + "\n";
  const std::uint64_t digest =
      sm64(words.data(), static_cast<std::int64_t>(words.size()), DType::kU8);
  return "-" + hex64(digest).substr(0, 8) + ".toml";
}

}  // namespace

Result<std::string> keep_job(const std::string& folder,
                             const JobIdentity& job,
                             const std::string& text) {
  const std::string name = std::string(kKeptPrefix) + std::to_string(job.seed) + "-" +
                           std::to_string(job.index) + mark_of(job.settings);
  const std::string file = (fs::path(folder) / name).string();
  // Every file in the folder says what it is about, for its readers.
  const bool is_reproduction = text.find("\n[replay]\n") != std::string::npos;
  Replay replay;
  replay.scenario = name;
  DiskFiles files;
  Outcome done = files.make_folder(folder);
  if (done.ok()) {
    done = files.publish(file, is_reproduction ? text : with_replay(text, replay));
  }
  if (!done.ok()) return done.error();
  return file;
}

std::vector<std::string> kept_job_files(const std::string& folder,
                                        const std::vector<Setting>& settings) {
  const std::string mark = mark_of(settings);
  std::vector<std::string> files;
  std::error_code code;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, code)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kKeptPrefix) && name.ends_with(mark))
      files.push_back(entry.path().string());
  }
  std::ranges::sort(files);
  return files;
}

std::vector<KeptJob> try_kept_jobs(const std::vector<std::string>& files) {
  std::vector<KeptJob> jobs;
  jobs.reserve(files.size());
  for (const std::string& file : files) jobs.push_back({file, complaint_about_file(file)});
  return jobs;
}

}  // namespace lockstep
