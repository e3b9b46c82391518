#include "lockstep/optim/cosine_annealing.h"

#include <cmath>
#include <numbers>

namespace lockstep::optim {

CosineAnnealingLr::CosineAnnealingLr(Optimizer& optimizer, std::int64_t t_max, double eta_min)
    : optimizer_(&optimizer), t_max_(t_max), eta_min_(eta_min), base_lr_(optimizer.lr()) {
  LOCKSTEP_CHECK(t_max > 0, "half a cosine takes at least one step");
}

void CosineAnnealingLr::step() {
  ++last_epoch_;
  const auto t_max = static_cast<double>(t_max_);
  const double lr = optimizer_->lr();
  // At a minimum the ratio below would divide zero by zero.
  if ((last_epoch_ - 1 - t_max_) % (2 * t_max_) == 0) {
    optimizer_->set_lr(lr + (base_lr_ - eta_min_) * (1 - std::cos(std::numbers::pi / t_max)) / 2);
    return;
  }
  const auto here = static_cast<double>(last_epoch_);
  const double now = 1 + std::cos(std::numbers::pi * here / t_max);
  const double before = 1 + std::cos(std::numbers::pi * (here - 1) / t_max);
  optimizer_->set_lr(now / before * (lr - eta_min_) + eta_min_);
}

}  // namespace lockstep::optim
