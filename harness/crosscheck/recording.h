// Recordings of runs on GPUs, and computing them again without one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/harness/crosscheck/collective_cases.h"

namespace lockstep {

/// What one case gave on all ranks of one launch.
struct RecordedCase {
  std::string name;
  std::vector<std::uint64_t> digests;  ///< By rank.
  std::string verdict;                 ///< The rule that gives them, or "impossible".
};

/// One launch of the cases.
struct RecordedLaunch {
  std::string title;  ///< "ring, simple, 1 channel, launch 0"
  std::int32_t n_ranks = 0;
  std::vector<RecordedCase> cases;
};

/// What verdicts choose from, what is expected of NCCL first.
std::vector<SummingRule> rules_of_verdicts(std::int32_t n_ranks);

/// Runs the cases; collective. Returns: on every rank the digests of all, on rank 0 judged.
RecordedLaunch record_launch(ProcessGroup& group,
                             const std::string& title,
                             std::span<const CollectiveCase> cases);

/// The launch as JSON, one object.
std::string to_json(const RecordedLaunch& launch);

/// What a recording (a JSON file with "format", "date", "environment", "launches" and the other
/// steps' results) says that is not so: computes every digest again and compares verdicts.
struct RecordingCheck {
  std::string date;
  std::int64_t n_digests = 0;
  std::vector<std::string> problems;  ///< "launch 0, all_reduce sum f32 3 rough: ..."
};

/// Errors: no such file, not a recording, an unknown case.
Result<RecordingCheck> check_recording(const std::string& path);

/// Writes the verdicts anew that this version of the simulator gives on the recorded digests, which stay as
/// they are: for recordings older than an order that explains them.
/// Errors: as check_recording; the file cannot be written.
Outcome judge_recording(const std::string& path);

}  // namespace lockstep
