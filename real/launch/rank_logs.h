// Where the output of ranks goes: files below the folder of logs, and the terminal.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <ostream>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/real/launch/worker_environment.h"
#include "lockstep/real/launch/worker_output.h"

namespace lockstep::launch {

/// The output of all ranks of this machine in one attempt.
///
///   logs/attempt_K/LOCAL_RANK/stdout.log, stderr.log, error.json
///   logs/attempt_K/filtered_stdout.log, filtered_stderr.log
///
/// Source: DefaultLogsSpecs and PContext of torch.distributed.elastic.multiprocessing.
class RankLogs {
 public:
  /// `options` outlives this.
  RankLogs(const LaunchOptions& options, const RunFolders& folders, std::int32_t attempt);

  /// Makes the folder of a rank. Errors: it cannot be made.
  Outcome add(std::int32_t local_rank);

  /// What its streams are written into by the rank itself; empty: into a pipe.
  std::array<std::string, 2> files(std::int32_t local_rank) const;

  /// What its pipes go to.
  /// Requires: add(local_rank).
  std::array<WorkerOutput, 2> outputs(std::int32_t local_rank,
                                      std::ostream& out,
                                      std::ostream& err) const;

 private:
  std::string file_of(std::int32_t local_rank, std::int32_t stream) const;
  WorkerOutput output(std::int32_t local_rank, std::int32_t stream, std::ostream& terminal) const;

  const LaunchOptions& options_;
  RunFolders folders_;
  std::int32_t attempt_;
  std::array<std::shared_ptr<Duplicates>, 2> duplicates_;
};

/// `text` with ${role_name}, ${local_rank}, ${rank} and ${hostname} replaced; others stay.
std::string render_prefix(const LaunchOptions& options, std::int32_t local_rank);

}  // namespace lockstep::launch
