// The cosine schedule of learning rates.
#pragma once

#include <cstdint>

#include "lockstep/optim/optimizer.h"

namespace lockstep::optim {

/// Moves an optimizer's learning rate along half a cosine, from its value at construction down to
/// `eta_min` after `t_max` steps (and up again behind it).
///
/// Requires:      t_max > 0; the optimizer outlives the scheduler.
/// Deterministic: bit-equal to PyTorch 1.13's rates given the same C library (cos): each rate is
///                computed from the one before, as there.
/// Source:        torch.optim.lr_scheduler.CosineAnnealingLR; Loshchilov and Hutter, ICLR 2017.
class CosineAnnealingLr {
 public:
  CosineAnnealingLr(Optimizer& optimizer, std::int64_t t_max, double eta_min = 0.0);

  /// One epoch, or one step, further: call it after optimizer.step().
  void step();

 private:
  Optimizer* optimizer_;
  std::int64_t t_max_;
  std::int64_t last_epoch_ = 0;
  double eta_min_;
  double base_lr_;
};

}  // namespace lockstep::optim
