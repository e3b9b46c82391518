#pragma once

#include <utility>
#include <vector>

#include "lockstep/optim/optimizer.h"

namespace lockstep::optim {

/// PyTorch's arguments, by their names.
struct SparseAdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  bool maximize = false;
};

/// Adam for sparse gradients: moments and parameters move only in the rows of the gradient.
///
/// State: "step", "exp_avg", "exp_avg_sq".
/// Errors: std::invalid_argument with PyTorch's text for options that make no sense, and
///     std::runtime_error with PyTorch's text for a dense gradient.
/// Deterministic: bit-equal to PyTorch 1.13's CPU path, given equal gradients and the same C
///     library (pow).
/// Source: torch.optim.SparseAdam.
class SparseAdam final : public Optimizer {
 public:
  SparseAdam(std::vector<ParamGroup> groups, const SparseAdamOptions& options);

  SparseAdam(std::vector<Variable> parameters, const SparseAdamOptions& options)
      : SparseAdam(one_group(std::move(parameters)), options) {}

  const SparseAdamOptions& options() const { return options_; }  ///< As constructed; see groups().

 private:
  OptimizerInfo info() const override;
  void update(std::size_t i, const Group& group) override;
  void update_rows(std::size_t i, const SparseRows& rows, const Group& group) override;

  SparseAdamOptions options_;
};

}  // namespace lockstep::optim
