#pragma once

#include <utility>
#include <vector>

#include "lockstep/optim/optimizer.h"

namespace lockstep::optim {

/// PyTorch's arguments, by their names.
struct AdagradOptions {
  double lr = 1e-2;
  double lr_decay = 0.0;
  double weight_decay = 0.0;
  double initial_accumulator_value = 0.0;
  double eps = 1e-10;
  bool maximize = false;
};

/// Adagrad: steps along the gradient over the root of the sum of all its squares so far.
///
/// State: "step", "sum", both there from construction on, as in PyTorch.
/// Errors: std::invalid_argument with PyTorch's text for options that make no sense, and
///     std::runtime_error for a sparse gradient with weight decay.
/// Deterministic: bit-equal to PyTorch 1.13's single-tensor CPU path on AVX2, given equal
///     gradients.
/// Source: torch.optim.Adagrad; Duchi et al., JMLR 2011.
class Adagrad final : public Optimizer {
 public:
  Adagrad(std::vector<ParamGroup> groups, const AdagradOptions& options);

  Adagrad(std::vector<Variable> parameters, const AdagradOptions& options)
      : Adagrad(one_group(std::move(parameters)), options) {}

  const AdagradOptions& options() const { return options_; }  ///< As constructed; see groups().

 private:
  OptimizerInfo info() const override;
  void update(std::size_t i, const Group& group) override;
  void update_rows(std::size_t i, const SparseRows& rows, const Group& group) override;

  AdagradOptions options_;
};

}  // namespace lockstep::optim
