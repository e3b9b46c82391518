#pragma once

#include <utility>
#include <vector>

#include "lockstep/optim/optimizer.h"

namespace lockstep::optim {

/// PyTorch's arguments, by their names.
struct SgdOptions {
  double lr = 1e-3;
  double momentum = 0.0;
  double dampening = 0.0;
  double weight_decay = 0.0;
  bool nesterov = false;
  bool maximize = false;
};

/// Stochastic gradient descent with momentum. The first momentum step copies the gradient undamped.
///
/// Errors: std::invalid_argument with PyTorch's text for options that make no sense;
///     std::runtime_error for a sparse gradient with weight decay (PyTorch's text) or with
///     momentum, which PyTorch keeps sparse and Lockstep does not have.
/// Deterministic: bit-equal to PyTorch 1.13's single-tensor path, given equal gradients.
/// Source: torch.optim.SGD; Sutskever et al., ICML 2013, for Nesterov's form.
class Sgd final : public Optimizer {
 public:
  Sgd(std::vector<ParamGroup> groups, const SgdOptions& options);

  Sgd(std::vector<Variable> parameters, const SgdOptions& options)
      : Sgd(one_group(std::move(parameters)), options) {}

  const SgdOptions& options() const { return options_; }  ///< As constructed; see groups().

 private:
  OptimizerInfo info() const override;
  void update(std::size_t i, const Group& group) override;
  void update_rows(std::size_t i, const SparseRows& rows, const Group& group) override;

  SgdOptions options_;
};

}  // namespace lockstep::optim
