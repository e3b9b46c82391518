// How learning rates change: each schedule's parameters, by PyTorch's names and with its defaults.
#pragma once

#include <cstdint>
#include <functional>
#include <variant>
#include <vector>

#include "lockstep/base/enum_names.h"

namespace lockstep::optim {

/// Multiplies the rate by `gamma` every `step_size` epochs.
struct StepLr {
  std::int64_t step_size = 1;
  double gamma = 0.1;
};

/// Multiplies the rate by `gamma` at each milestone, as often as it is listed.
struct MultiStepLr {
  std::vector<std::int64_t> milestones;
  double gamma = 0.1;
};

/// The initial rate times `factor` until epoch `total_iters`.
struct ConstantLr {
  double factor = 1.0 / 3;
  std::int64_t total_iters = 5;
};

/// From start_factor to end_factor times the initial rate, in equal steps.
struct LinearLr {
  double start_factor = 1.0 / 3;
  double end_factor = 1.0;
  std::int64_t total_iters = 5;
};

/// Multiplies the rate by `gamma` every epoch.
struct ExponentialLr {
  double gamma = 0.9;
};

/// From the initial rate to 0 like (1 - epoch / total_iters) ^ power.
struct PolynomialLr {
  std::int64_t total_iters = 5;
  double power = 1.0;
};

/// Half a cosine down to `eta_min` at epoch `t_max`, and up again after it.
/// Source: Loshchilov and Hutter, ICLR 2017.
struct CosineAnnealingLr {
  std::int64_t t_max = 1;
  double eta_min = 0.0;
};

/// The same half cosine again and again, each `t_mult` times as long as the one before.
struct CosineAnnealingWarmRestarts {
  std::int64_t t_0 = 1;
  std::int64_t t_mult = 1;
  double eta_min = 0.0;
};

enum class Anneal : std::uint8_t { kCos, kLinear };

/// Up to `max_lr` and down to almost nothing, momentum (Adam: beta1) the opposite way. Not
/// chainable; total_steps epochs, one more is an error. Lists have one value or one per group.
/// Source: Smith and Topin, arXiv:1708.07120.
struct OneCycleLr {
  std::vector<double> max_lr;
  std::int64_t total_steps = 1;
  double pct_start = 0.3;
  Anneal anneal = Anneal::kCos;
  bool cycle_momentum = true;
  std::vector<double> base_momentum = {0.85};
  std::vector<double> max_momentum = {0.95};
  double div_factor = 25.0;
  double final_div_factor = 1e4;
  bool three_phase = false;
};

using LrFactor = std::function<double(std::int64_t epoch)>;

/// The initial rate times factor(epoch). One function, or one per group.
struct LambdaLr {
  std::vector<LrFactor> factors;
};

/// Multiplies the rate by factor(epoch) every epoch but epoch 0. One function, or one per group.
/// After a milestone of SequentialLr, torch 2.15 multiplies by factor(0) too; 1.13 and this do
/// not.
struct MultiplicativeLr {
  std::vector<LrFactor> factors;
};

using LrRule = std::variant<StepLr,
                            MultiStepLr,
                            ConstantLr,
                            LinearLr,
                            ExponentialLr,
                            PolynomialLr,
                            CosineAnnealingLr,
                            CosineAnnealingWarmRestarts,
                            OneCycleLr,
                            LambdaLr,
                            MultiplicativeLr>;

}  // namespace lockstep::optim

namespace lockstep {

template <>
inline constexpr EnumNames<2> kEnumNames<optim::Anneal> = {"cos", "linear"};

}  // namespace lockstep
