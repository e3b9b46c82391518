#pragma once

#include <utility>
#include <vector>

#include "lockstep/optim/optimizer.h"

namespace lockstep::optim {

/// PyTorch's arguments, by their names.
struct RmspropOptions {
  double lr = 1e-2;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0.0;
  double momentum = 0.0;
  bool centered = false;
  bool maximize = false;
  Compat compat = Compat::kTorch1;
};

/// RMSprop: steps along the gradient over the root of the running mean of its squares, or,
/// centered, of its variance.
///
/// State: "step", "square_avg", with momentum "momentum_buffer", centered "grad_avg".
/// Errors: std::invalid_argument with PyTorch's text for options that make no sense.
/// Deterministic: kTorch1 is bit-equal to PyTorch 1.13's single-tensor CPU path on AVX2, given
///     equal gradients. kTorch2 differs in grad_avg alone, which then is a lerp.
/// Source: torch.optim.RMSprop; Graves, arXiv:1308.0850 (centered).
class Rmsprop final : public Optimizer {
 public:
  Rmsprop(std::vector<ParamGroup> groups, const RmspropOptions& options);

  Rmsprop(std::vector<Variable> parameters, const RmspropOptions& options)
      : Rmsprop(one_group(std::move(parameters)), options) {}

  const RmspropOptions& options() const { return options_; }  ///< As constructed; see groups().

 private:
  OptimizerInfo info() const override;
  void update(std::size_t i, const Group& group) override;
  void update_rows(std::size_t i, const SparseRows& rows, const Group& group) override;

  RmspropOptions options_;
  // Places in state(). 0 = not added; a schedule may switch momentum on later.
  std::size_t momentum_list_ = 0;
  std::size_t mean_list_ = 0;
};

}  // namespace lockstep::optim
