// What the laws say about random correct jobs: nothing, if they are right.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/explore/jobs/job_sketch.h"
#include "lockstep/scenario/scenario.h"

namespace lockstep {

/// The sketch as a scenario, read back from its file's text.
/// Errors: the reader's, which would be a defect of the sketch.
Result<Scenario> scenario_of(const JobSketch& sketch);

/// Runs the job with all laws; `thorough` adds those that run it several times more.
///
/// Returns: empty, or what was said about it, the first finding first.
std::string complaint_about(const JobSketch& sketch, bool thorough);

struct RandomJobsOptions {
  std::uint64_t seed = 0;
  std::uint64_t first = 0;  ///< Jobs first, first + 1, ... of the space.
  std::uint64_t n_jobs = 100;
  std::uint64_t thorough_every = 16;  ///< So many jobs apart, all laws are asked; 0 = never.
  bool simplify = true;               ///< Look for the simplest job with the same complaint's law.
};

struct FalseAlarm {
  std::uint64_t index = 0;
  std::string complaint;  ///< About the job as it was drawn.
  JobSketch sketch;       ///< The simplest one of which the same law complains.
};

struct RandomJobsResult {
  std::uint64_t n_jobs = 0;
  std::uint64_t n_thorough = 0;
  std::vector<FalseAlarm> false_alarms;
};

/// Draws jobs and runs them.
///
/// Deterministic: a function of the options.
RandomJobsResult try_random_jobs(const RandomJobsOptions& options);

/// The simplest sketch that still makes `complains` true, by taking away one part after another.
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
