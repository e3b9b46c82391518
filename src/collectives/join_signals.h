// What a wrapper under a join context announces to, and asks of, the ranks without inputs.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/collectives/join.h"

namespace lockstep {

/// The small collectives around each forward of a joined wrapper.
///
/// Source: torch DistributedDataParallel, _check_global_requires_backward_grad_sync and
///     _find_common_rank.
class JoinSignals {
 public:
  explicit JoinSignals(ProcessGroup& group) : group_(&group) {}

  /// Waits for what earlier forwards announced: their memory must outlive the works.
  void settle();

  /// AR i64[1] MAX of this rank, or of -1 where it is not a candidate: the largest candidate.
  /// Errors: std::invalid_argument with PyTorch's text when there is none.
  std::int32_t common_rank(bool is_candidate, const OpOptions& options) const;
  /// AR f32[1]: whether this rank's backward will synchronise. It does not wait for the answer.
  void announce_sync(bool will_sync, const OpOptions& options);
  /// A joined rank's side of announce_sync. Returns: whether some rank will synchronise.
  bool any_rank_syncs(const OpOptions& options) const;

 private:
  JoinNotice post(double value, const OpOptions& options) const;

  ProcessGroup* group_;
  std::vector<JoinNotice> pending_;
};

}  // namespace lockstep
