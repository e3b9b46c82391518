// A barrier that reports which ranks did not arrive.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/comm/process_group.h"

namespace lockstep {

/// A monitored barrier failed; what() is PyTorch's text.
class MonitoredBarrierError : public CommError {
 public:
  MonitoredBarrierError(const Signature& barrier,
                        std::string text,
                        std::vector<std::int32_t> missing)
      : CommError(CommStatus::kTimedOut, barrier, Verbatim{std::move(text)}),
        missing_(std::move(missing)) {}

  /// Group ranks that did not come, ascending; empty on other ranks than 0, which do not know.
  const std::vector<std::int32_t>& missing() const { return missing_; }

 private:
  std::vector<std::int32_t> missing_;
};

/// No rank passes unless all arrive. Rank 0 receives from the others in order and answers.
///
/// Without `wait_all_ranks` all share one deadline and the first missing rank ends it; with it
/// every rank gets the whole timeout and all missing ones are named. The others wait for rank 0's
/// answer as long as options.timeout says, 0 = 30 minutes, c10d's default for a Gloo group. After a
/// failure the group has no further monitored barriers: what was sent for this one may still be
/// under way.
///
/// Units: `timeout` is virtual time in the simulator, wall clock elsewhere.
/// Requires: timeout > 0.
/// Errors: MonitoredBarrierError: on rank 0 it names the missing, the others refer to rank 0.
/// Source: c10d ProcessGroupGloo::monitoredBarrier.
void monitored_barrier(ProcessGroup& group,
                       Duration timeout,
                       bool wait_all_ranks = false,
                       const OpOptions& options = {.site = CallSite::here()});

}  // namespace lockstep
