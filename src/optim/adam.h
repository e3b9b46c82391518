#pragma once

#include <utility>
#include <vector>

#include "lockstep/optim/optimizer.h"

namespace lockstep::optim {

/// PyTorch's arguments, by their names.
struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0;  ///< Part of the gradient.
  bool amsgrad = false;
  bool maximize = false;
  Compat compat = Compat::kTorch1;
};

/// Adam: steps along the running mean of gradients over the root of that of their squares.
///
/// State: "step", "exp_avg", "exp_avg_sq", with amsgrad "max_exp_avg_sq".
/// Errors: std::invalid_argument with PyTorch's text for options that make no sense.
/// Deterministic: kTorch1 is bit-equal to PyTorch 1.13's single-tensor CPU path on AVX2 in f32 and
///     f64, given equal gradients and the same C library (pow). kTorch2 differs in the first moment
///     alone, which then is a lerp.
/// Source: torch.optim.Adam; Kingma and Ba, ICLR 2015; Reddi et al., ICLR 2018 (amsgrad).
class Adam : public Optimizer {
 public:
  Adam(std::vector<ParamGroup> groups, const AdamOptions& options)
      : Adam(std::move(groups), options, false) {}

  Adam(std::vector<Variable> parameters, const AdamOptions& options)
      : Adam(one_group(std::move(parameters)), options, false) {}

  const AdamOptions& options() const { return options_; }  ///< As constructed; see groups().

 protected:
  Adam(std::vector<ParamGroup> groups, const AdamOptions& options, bool decoupled);

 private:
  OptimizerInfo info() const override;
  void update(std::size_t i, const Group& group) override;
  void update_rows(std::size_t i, const SparseRows& rows, const Group& group) override;

  AdamOptions options_;
  bool decoupled_;
};

/// PyTorch's arguments, by their names. A type of its own because the decay has another default.
struct AdamWOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 1e-2;  ///< Shrinks the parameter before the step.
  bool amsgrad = false;
  bool maximize = false;
  Compat compat = Compat::kTorch1;
};

/// Adam with decoupled decay: the parameter is multiplied by 1 - lr * weight_decay first.
///
/// Source: torch.optim.AdamW; Loshchilov and Hutter, ICLR 2019.
class AdamW final : public Adam {
 public:
  AdamW(std::vector<ParamGroup> groups, const AdamWOptions& options)
      : Adam(std::move(groups), as_adam(options), true) {}

  AdamW(std::vector<Variable> parameters, const AdamWOptions& options)
      : Adam(one_group(std::move(parameters)), as_adam(options), true) {}

 private:
  static AdamOptions as_adam(const AdamWOptions& options) {
    return {.lr = options.lr,
            .beta1 = options.beta1,
            .beta2 = options.beta2,
            .eps = options.eps,
            .weight_decay = options.weight_decay,
            .amsgrad = options.amsgrad,
            .maximize = options.maximize,
            .compat = options.compat};
  }
};

}  // namespace lockstep::optim
