// Gradients that are averaged at once, after the gradient of one named parameter.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lockstep/autograd/variable.h"
#include "lockstep/comm/process_group.h"

namespace lockstep {

/// Keeps the gradients of some parameters in one flat f32 buffer and averages it whenever the
/// trigger's gradient has been computed, just before that is added to its `.grad`.
///
/// The reducer does not know these parameters. Nothing but the trigger counts: no_sync, unused
/// parameters and the join context are ignored, and what reaches the buffer after the trigger is
/// never averaged.
///
/// Deterministic: the buffer is divided first, by a true division, and then summed in the group's
///     order. A departure: the end of the outermost backward waits for the sum, where PyTorch drops
///     the work without a wait.
/// Source: torch DistributedDataParallel, _register_delay_all_reduce_hook.
class DelayedAllReduce final : public GradHook, public BackwardCallback {
 public:
  /// Requires: at least one parameter; `trigger` is a leaf that requires grad; the group outlives
  ///     this.
  /// Errors: ReducerError for a parameter that is not f32.
  DelayedAllReduce(std::vector<NamedVariable> parameters,
                   Variable trigger,
                   ProcessGroup& group,
                   const OpOptions& options);
  ~DelayedAllReduce() override;
  DelayedAllReduce(const DelayedAllReduce&) = delete;
  DelayedAllReduce& operator=(const DelayedAllReduce&) = delete;
  DelayedAllReduce(DelayedAllReduce&&) = delete;
  DelayedAllReduce& operator=(DelayedAllReduce&&) = delete;

  /// The parameters become rank 0's, in messages of at least `cap_bytes` where there is that much.
  void broadcast(std::int64_t cap_bytes, const OpOptions& options) const;

  /// A forward ended: parameters without a gradient get their part of the buffer, filled with
  /// zeros.
  void lend_views();

  void on_grad_increment(std::size_t index, const Tensor& increment) override;
  void on_grad_ready(std::size_t index) override;
  void on_backward_end() override;

 private:
  void launch();

  std::vector<NamedVariable> parameters_;
  Variable trigger_;
  ProcessGroup* group_;
  OpOptions options_;
  Tensor flat_;
  std::vector<Tensor> views_;
  Work work_;
  bool launched_ = false;  // For this gradient of the trigger.
};

}  // namespace lockstep
