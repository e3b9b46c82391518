// What the laws say about random correct jobs: nothing, if they are right.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/harness/explore/jobs/job_sketch.h"
#include "lockstep/harness/explore/parts/shard.h"
#include "lockstep/harness/format/document.h"
#include "lockstep/harness/format/load.h"
#include "lockstep/sim/session/warm_session.h"

namespace lockstep {

/// How a sketch is checked.
struct Inspection {
  bool thorough = false;            ///< Also with the laws that run a job several times more.
  std::vector<Setting> settings{};  ///< Changes of the scenario, as a bug to be found.
};

/// The sketch as a document, read from its file's text.
/// Errors: a setting that does not fit.
Result<TomlNode> document_of(const JobSketch& sketch, const Inspection& how);

/// The sketch as a scenario.
/// Errors: the reader's, which would be a defect of the sketch.
Result<Scenario> scenario_of(const JobSketch& sketch, const Inspection& how = {});

/// Runs the job with all laws.
///
/// Returns: empty, or what was said about it, the first finding first. What Lockstep fails on
///     is a complaint, too; a setting that the job cannot have is none.
std::string complaint_about(const JobSketch& sketch, const Inspection& how = {});
/// Of many jobs, whose runs find each other's memory warm.
std::string complaint_about(const JobSketch& sketch, const Inspection& how, sim::WarmSession& warm);

/// The same of the scenario in a file; a file that cannot be read is a complaint.
std::string complaint_about_file(const std::string& path);

/// Which jobs to draw, and how hard to look at them.
struct RandomJobsOptions {
  std::uint64_t seed = 0;
  std::uint64_t first = 0;  ///< Jobs first, first + 1, ... of the space.
  std::uint64_t n_jobs = 100;
  std::uint64_t thorough_every = 16;  ///< Every n-th job is checked against all laws; 0 = never.
  std::uint64_t n_simplified = 20;    ///< Alarms simplified at most; the others are counted.
  std::uint64_t n_threads = 1;        ///< Jobs at once.
  std::vector<Setting> settings{};    ///< Of every job that can have them.
  /// Called between jobs, on the calling thread.
  std::function<void(std::uint64_t done, std::uint64_t most)> progress{};
};

/// A law that complained of a job that is correct.
struct FalseAlarm {
  std::uint64_t index = 0;
  Inspection how;
  std::string complaint;      ///< About the job as it was drawn.
  JobSketch sketch;           ///< The simplest one of which the same law complains.
  std::uint64_t n_tries = 0;  ///< Simpler ones that were tried.
};

/// What drawing jobs has come to.
struct RandomJobsResult {
  std::uint64_t n_jobs = 0;  ///< That can have the settings: the others were not run.
  std::uint64_t n_thorough = 0;
  std::vector<FalseAlarm> false_alarms;  ///< By their index.
};

/// What was said about one job of a space.
struct JobComplaint {
  std::uint64_t index = 0;
  std::string text;
};

/// Errors: no job can have the settings; the first one's reason.
Outcome check_settings(const RandomJobsOptions& options);

/// Draws the jobs of one shard and runs them.
///
/// Returns: the complaints, by index.
/// Deterministic: a function of options and shard, whatever n_threads.
std::vector<JobComplaint> complaints_of(const RandomJobsOptions& options,
                                        const explore::Shard& shard = {});

/// What complaints about jobs first .. first + n_jobs - 1 come to, the first ones with the simplest
/// job.
/// Requires: by index, each of a job that complaint_about complains of in these words.
RandomJobsResult alarms_of(const RandomJobsOptions& options,
                           const std::vector<JobComplaint>& complaints);

/// Draws jobs and runs them: alarms_of the complaints of all.
///
/// Deterministic: a function of the options, whatever n_threads.
RandomJobsResult try_random_jobs(const RandomJobsOptions& options);

/// How the job `index` is looked at.
Inspection inspection_of(const RandomJobsOptions& options, std::uint64_t index);

/// The simplest sketch that still makes `complains` true, by removing one part after another.
template <typename Complains>
JobSketch simplest(JobSketch sketch, Complains complains) {
  bool found = true;
  while (found) {
    found = false;
    for (const JobSketch& candidate : simpler(sketch)) {
      if (!complains(candidate)) continue;
      sketch = candidate;
      found = true;
      break;
    }
  }
  return sketch;
}

}  // namespace lockstep
