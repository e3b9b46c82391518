// The report when ranks failed.
#pragma once

#include <cstdint>
#include <string>
#include <sys/types.h>
#include <vector>

namespace lockstep::launch {

/// A rank that failed by itself (not because the launcher stopped it).
struct WorkerFailure {
  std::int32_t rank = 0;
  std::int32_t local_rank = 0;
  std::int32_t attempt = 0;
  pid_t pid = 0;
  int status = 0;       ///< Exit code, or minus the number of the signal.
  std::string message;  ///< What it wrote to its error file, or empty.
};

/// The message of a file that torch's `record` writes, or empty.
std::string read_error_file(const std::string& path);

/// "exit code 3", "signal 9 (SIGKILL)".
std::string status_text(int status);

/// A few lines: the first failure first, since the others often follow from it.
std::string render_failures(const std::vector<WorkerFailure>& failures,
                            const std::string& program,
                            std::int32_t max_restarts);

}  // namespace lockstep::launch
