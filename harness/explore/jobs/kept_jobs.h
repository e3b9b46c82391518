// Random jobs of which a law complained once: kept in a folder, tried first the next time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/harness/format/document.h"
#include "lockstep/harness/format/load.h"

namespace lockstep {

/// Which job it was.
struct JobIdentity {
  std::uint64_t seed = 0;
  std::uint64_t index = 0;
  std::vector<Setting> settings = {};  ///< Under which it was run.
};

/// Writes a scenario's text to `folder` under a name with seed, number and settings, so that
/// a job is kept once. A text without a table `replay` gets one.
/// Returns: the file's path.
/// Errors: the folder or file cannot be written.
Result<std::string> keep_job(const std::string& folder,
                             const JobIdentity& job,
                             const std::string& text);

/// A kept job, run now.
struct KeptJob {
  std::string file;
  std::string complaint;  ///< As complaint_about's; empty: nothing complains any more.
};

/// The files of the kept jobs that were found under these settings, by name. A folder that does not
/// exist holds none.
std::vector<std::string> kept_job_files(const std::string& folder,
                                        const std::vector<Setting>& settings);

/// Runs these kept jobs.
std::vector<KeptJob> try_kept_jobs(const std::vector<std::string>& files);

}  // namespace lockstep
