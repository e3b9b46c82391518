#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/optim/lr_scheduler.h"

namespace lockstep::optim {

/// PyTorch's arguments, by their names.
struct PlateauOptions {
  bool maximize = false;  ///< mode = "max": a larger metric is better.
  double factor = 0.1;
  std::int64_t patience = 10;
  double threshold = 1e-4;
  bool absolute = false;  ///< threshold_mode = "abs": the threshold is a difference, no share.
  std::int64_t cooldown = 0;
  std::vector<double> min_lr = {0.0};  ///< One value, or one per group.
  double eps = 1e-8;
};

/// Multiplies the rates by `factor` when a metric has not become better for more than `patience`
/// epochs, then waits `cooldown` epochs. Not an LrScheduler: its step wants the metric.
///
/// Under data parallelism the metric must be the same on all ranks; a metric of each rank's own
/// data lets the rates drift apart, which `optimizer-equal` and `replicas-equal` are there to see.
///
/// Requires: the optimizer outlives it.
/// Errors: std::invalid_argument with PyTorch's text.
/// Deterministic: bit-equal to PyTorch's rates, given equal metrics.
/// Source: torch.optim.lr_scheduler.ReduceLROnPlateau.
class ReduceLrOnPlateau {
 public:
  ReduceLrOnPlateau(Optimizer& optimizer, PlateauOptions options);

  /// Looks at a metric, and lowers the rates if it has not become better for long enough.
  void step(double metric);
  std::vector<StateNumber> state() const;
  /// Continues from what state() returned.
  void load_state(std::span<const StateNumber> numbers);

 private:
  bool is_better(double metric) const;
  void reduce();

  Optimizer* optimizer_;
  PlateauOptions options_;
  double best_;
  std::int64_t n_bad_ = 0;
  std::int64_t cooldown_left_ = 0;
  std::int64_t last_epoch_ = 0;
};

}  // namespace lockstep::optim
