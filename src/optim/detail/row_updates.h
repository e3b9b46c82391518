// The arithmetic of optimizers that touch only the rows of a sparse gradient.
#pragma once

#include "lockstep/autograd/sparse_rows.h"

namespace lockstep::optim::detail {

/// The gradient that optimizers descend along, coalesced: its negative when `maximize`. Negated
/// first, as PyTorch does: 0 and -0 of one row add up to another zero than their negatives.
Ref<SparseRows> descent_rows(const SparseRows& grad, bool maximize);

/// Adds the squares to those rows of `sum` and returns gradient / (sqrt(sum) + eps), row by row.
/// Requires: `grad` is coalesced; `sum` has its dense shape and dtype.
Ref<SparseRows> adagrad_rows(const SparseRows& grad, const Tensor& sum, double eps);

/// What SparseAdam needs besides its state.
struct RowMoments {
  double beta1 = 0.0;
  double beta2 = 0.0;
  double eps = 0.0;
  double step_size = 0.0;
};

/// Moves those rows of both moments on and returns what is to be added to the parameter.
/// Requires: `grad` is coalesced; the moments have its dense shape and dtype.
Ref<SparseRows> sparse_adam_rows(const SparseRows& grad,
                                 const Tensor& exp_avg,
                                 const Tensor& exp_avg_sq,
                                 const RowMoments& options);

}  // namespace lockstep::optim::detail
