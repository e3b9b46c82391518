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
  double weight_decay = 0.0;  ///< Adam: part of the gradient. AdamW: shrinks the parameter first.
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

/// Adam with decoupled decay: the parameter is multiplied by 1 - lr * weight_decay first.
/// PyTorch's default weight_decay is 1e-2: see adamw_defaults().
///
/// Source: torch.optim.AdamW; Loshchilov and Hutter, ICLR 2019.
class AdamW final : public Adam {
 public:
  AdamW(std::vector<ParamGroup> groups, const AdamOptions& options)
      : Adam(std::move(groups), options, true) {}

  AdamW(std::vector<Variable> parameters, const AdamOptions& options)
      : Adam(one_group(std::move(parameters)), options, true) {}
};

inline AdamOptions adamw_defaults() { return {.weight_decay = 1e-2}; }

}  // namespace lockstep::optim
