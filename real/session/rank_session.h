// One rank of a real run, whole: connection, runtime, recorder, and the laws once all have ended.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/rank_context.h"
#include "lockstep/laws/trace_check.h"
#include "lockstep/rank_run/rank_run.h"
#include "lockstep/real/session/backend.h"

namespace lockstep {

struct RankSessionOptions {
  BackendOptions backend;
  bool exact = false;  ///< Kernels prove that nothing rounds.
  bool record = true;
  bool values = false;                ///< Gradients and parameters as numbers.
  std::int64_t step_value_bytes = 0;  ///< Rank 0's step values, up to this many bytes.
  bool judge = true;                  ///< Check the laws on every rank; false: the launcher does.
  std::string trace;        ///< Where the ranks' traces go; empty: next to the rendezvous.
  TraceHeader header = {};  ///< Scenario and library; run, ranks and backend are filled in.
  std::vector<std::string> laws = {};  ///< Empty: all trace laws.
  LawPolicy policy = {};
  std::string title = {};   ///< Of the report.
  std::string replay = {};  ///< How to repeat the run, for the report.
  /// Runs after the body, unrecorded, when the bodies of all ranks have ended well.
  std::function<void(RankContext&)> afterwards = {};
};

struct RankSessionResult {
  /// The laws over all ranks' events (none without `record` or `judge`). Every rank computes the
  /// same; outcome kError when a rank failed or did not end in time.
  Report report;
  std::exception_ptr exception;                  ///< What left this rank's body, or null.
  FailureOrigin failure = FailureOrigin::kNone;  ///< Whose failure that is.
  std::string trace;                             ///< The folder of the traces.
};

/// Runs `body` as the rank that the launcher's environment names, over `backend`.
///
/// The rank writes its events to a file as they happen. When its body has ended it waits for the
/// others and checks the laws on the files of all ranks, which therefore lie in a shared folder.
///
/// Requires: called once per process.
/// Errors: the ranks do not connect, the trace cannot be written, unknown laws. What happens to
///     `body` is in the result.
Result<RankSessionResult> run_this_rank(const Backend& backend,
                                        const RankSessionOptions& options,
                                        const std::function<void(RankContext&)>& body);

}  // namespace lockstep
