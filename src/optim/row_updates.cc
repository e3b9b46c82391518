#include "lockstep/optim/detail/row_updates.h"

#include <cmath>

#include "lockstep/tensor/kernels.h"

namespace lockstep::optim::detail {
namespace {

/// Where entry `k`'s row starts in a table of this width.
std::int64_t row_offset(const SparseRows& rows, std::int64_t k) {
  return rows.indices().read<std::int64_t>()[k] * rows.values().shape()[1];
}

Tensor empty_values(const SparseRows& rows) {
  const Tensor& values = rows.values();
  return Tensor::empty(values.runtime(), values.shape(), values.dtype());
}

template <typename T>
void adagrad_values(const SparseRows& grad, const Tensor& sum, const Tensor& out, T eps) {
  const std::int64_t width = grad.values().shape()[1];
  for (std::int64_t k = 0; k < grad.n_entries(); ++k) {
    const T* const g = grad.values().read<T>() + (k * width);
    T* const kept = sum.write<T>() + row_offset(grad, k);
    T* const q = out.write<T>() + (k * width);
    for (std::int64_t d = 0; d < width; ++d) {
      kept[d] += g[d] * g[d];
      q[d] = g[d] / (std::sqrt(kept[d]) + eps);
    }
  }
}

/// The options in the precision of the values, as PyTorch passes scalars to its kernels.
template <typename T>
struct Factors {
  explicit Factors(const RowMoments& options)
      : rest1(static_cast<T>(1.0 - options.beta1)),
        rest2(static_cast<T>(1.0 - options.beta2)),
        eps(static_cast<T>(options.eps)),
        step(static_cast<T>(-options.step_size)) {}

  T rest1;
  T rest2;
  T eps;
  T step;
};

template <typename T>
void adam_element(T& g, T& mean, T& square, const Factors<T>& by) {
  const T mean_change = (g - mean) * by.rest1;
  const T square_change = ((g * g) - square) * by.rest2;
  mean += mean_change;
  square += square_change;
  g = by.step * (mean / (std::sqrt(square) + by.eps));
}

template <typename T>
void adam_values(const SparseRows& grad,
                 const Tensor& exp_avg,
                 const Tensor& exp_avg_sq,
                 const Tensor& out,
                 const RowMoments& options) {
  const Factors<T> by(options);
  const std::int64_t width = grad.values().shape()[1];
  for (std::int64_t k = 0; k < grad.n_entries(); ++k) {
    T* const mean = exp_avg.write<T>() + row_offset(grad, k);
    T* const square = exp_avg_sq.write<T>() + row_offset(grad, k);
    T* const change = out.write<T>() + (k * width);
    for (std::int64_t d = 0; d < width; ++d) {
      change[d] = grad.values().read<T>()[(k * width) + d];
      adam_element(change[d], mean[d], square[d], by);
    }
  }
}

}  // namespace

Ref<SparseRows> descent_rows(const SparseRows& grad, bool maximize) {
  if (!maximize) return grad.coalesce();
  const Tensor negated = empty_values(grad);
  negated.runtime().kernels().scale(negated, grad.values(), -1.0);
  return grad.with_values(negated)->coalesce();
}

Ref<SparseRows> adagrad_rows(const SparseRows& grad, const Tensor& sum, double eps) {
  const Tensor out = empty_values(grad);
  if (out.dtype() == DType::kF32) {
    adagrad_values<float>(grad, sum, out, static_cast<float>(eps));
  } else {
    adagrad_values<double>(grad, sum, out, eps);
  }
  return grad.with_values(out);
}

Ref<SparseRows> sparse_adam_rows(const SparseRows& grad,
                                 const Tensor& exp_avg,
                                 const Tensor& exp_avg_sq,
                                 const RowMoments& options) {
  const Tensor out = empty_values(grad);
  if (out.dtype() == DType::kF32) {
    adam_values<float>(grad, exp_avg, exp_avg_sq, out, options);
  } else {
    adam_values<double>(grad, exp_avg, exp_avg_sq, out, options);
  }
  return grad.with_values(out);
}

}  // namespace lockstep::optim::detail
