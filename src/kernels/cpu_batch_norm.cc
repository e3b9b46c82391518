#include <cmath>
#include <fmt/core.h>

#include "lockstep/kernels/detail/cpu.h"
#include "lockstep/kernels/detail/elements.h"
#include "lockstep/tensor/detail/dispatch.h"

namespace lockstep::detail {

namespace {

/// Mean and sum of squared deviations of one column, rows ascending.
template <typename T>
struct ColumnStatistics {
  T mean{0};
  T squares{0};
};

template <typename T>
ColumnStatistics<T> statistics_of(const T* column, std::int64_t n_rows, std::int64_t stride) {
  ColumnStatistics<T> result;
  for (std::int64_t row = 0; row < n_rows; ++row) result.mean += column[row * stride];
  result.mean /= static_cast<T>(n_rows);
  for (std::int64_t row = 0; row < n_rows; ++row) {
    const T deviation = column[row * stride] - result.mean;
    result.squares += deviation * deviation;
  }
  return result;
}

template <typename T>
const T* read_or_null(std::span<const Tensor> tensors, std::size_t i) {
  return i < tensors.size() && tensors[i].defined() ? tensors[i].read<T>() : nullptr;
}

template <typename T>
T* write_or_null(std::span<const Tensor> tensors, std::size_t i) {
  return i < tensors.size() && tensors[i].defined() ? tensors[i].write<T>() : nullptr;
}

template <typename T>
T* column_or_null(T* data, std::int64_t column) {
  return data == nullptr ? nullptr : data + column;
}

template <typename T>
T value_or(const T* data, std::int64_t i, T otherwise) {
  return data == nullptr ? otherwise : data[i];
}

template <typename T>
void move_running(T* running, T value, T momentum) {
  if (running != nullptr) *running = momentum * value + (T{1} - momentum) * *running;
}

/// One column of the backward pass; null pointers are gradients that are not needed.
template <typename T>
struct ColumnGradient {
  const T* grad;
  const T* x;
  T mean;
  T invstd;
  T weight;
  std::int64_t n_rows;
  std::int64_t stride;

  T x_hat(std::int64_t row) const { return (x[row * stride] - mean) * invstd; }

  void write(T* grad_x, T* grad_weight, T* grad_bias) const {
    T sum{0};
    T dot{0};
    for (std::int64_t row = 0; row < n_rows; ++row) {
      sum += grad[row * stride];
      dot += grad[row * stride] * x_hat(row);
    }
    if (grad_weight != nullptr) *grad_weight = dot;
    if (grad_bias != nullptr) *grad_bias = sum;
    if (grad_x == nullptr) return;
    const T slope = invstd * weight;
    const T mean_grad = sum / static_cast<T>(n_rows);
    const T mean_dot = dot / static_cast<T>(n_rows);
    for (std::int64_t row = 0; row < n_rows; ++row) {
      grad_x[row * stride] = (grad[row * stride] - mean_grad - x_hat(row) * mean_dot) * slope;
    }
  }
};

}  // namespace

void CpuKernels::batch_norm(const Tensor& out,
                            std::span<const Tensor> x_weight_bias,
                            std::span<const Tensor> running_mean_var,
                            std::span<const Tensor> save_mean_invstd,
                            const BatchNorm& options) {
  LOCKSTEP_CHECK(!x_weight_bias.empty() && out.shape().n_dims() == 2,
                 fmt::format("batch norm works on the rows of (B, D), not on {}", out.text()));
  agreed_elems(out, x_weight_bias[0]);
  const std::int64_t n_rows = out.size(0);
  const std::int64_t width = out.size(1);
  LOCKSTEP_CHECK(!options.training || n_rows > 1,
                 fmt::format("batch norm cannot train on {}: one row has no variance", out.text()));
  for_float(out.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const T* const x = x_weight_bias[0].read<T>();
    const T* const weight = read_or_null<T>(x_weight_bias, 1);
    const T* const bias = read_or_null<T>(x_weight_bias, 2);
    T* const running_mean = write_or_null<T>(running_mean_var, 0);
    T* const running_var = write_or_null<T>(running_mean_var, 1);
    T* const save_mean = write_or_null<T>(save_mean_invstd, 0);
    T* const save_invstd = write_or_null<T>(save_mean_invstd, 1);
    const T momentum = static_cast<T>(options.momentum);
    for (std::int64_t d = 0; d < width; ++d) {
      T mean = value_or(running_mean, d, T{0});
      T variance = value_or(running_var, d, T{1});
      if (options.training) {
        const auto statistics = statistics_of(x + d, n_rows, width);
        mean = statistics.mean;
        variance = statistics.squares / static_cast<T>(n_rows);
        const T unbiased = statistics.squares / static_cast<T>(n_rows - 1);
        move_running(column_or_null(running_mean, d), mean, momentum);
        move_running(column_or_null(running_var, d), unbiased, momentum);
      }
      const T invstd = T{1} / std::sqrt(variance + static_cast<T>(options.eps));
      if (save_mean != nullptr) save_mean[d] = mean;
      if (save_invstd != nullptr) save_invstd[d] = invstd;
      const T slope = invstd * value_or(weight, d, T{1});
      const T shift = value_or(bias, d, T{0});
      T* const o = out.write<T>() + d;
      for (std::int64_t row = 0; row < n_rows; ++row) {
        o[row * width] = (x[row * width + d] - mean) * slope + shift;
      }
    }
  });
}

// grad_x = (g - mean(g) - x_hat * mean(g * x_hat)) * weight * invstd with x_hat = (x - mean) *
// invstd. Source: Ioffe and Szegedy 2015, section 3.
void CpuKernels::batch_norm_backward(std::span<const Tensor> grads,
                                     std::span<const Tensor> in,
                                     std::span<const Tensor> save_mean_invstd) {
  LOCKSTEP_CHECK(in.size() >= 2 && in[0].shape().n_dims() == 2, "inputs: grad_out, x, weight");
  const std::int64_t n_rows = in[0].size(0);
  const std::int64_t width = in[0].size(1);
  for_float(in[0].dtype(), [&](auto tag) {
    using T = decltype(tag);
    const T* const weight = read_or_null<T>(in, 2);
    for (std::int64_t d = 0; d < width; ++d) {
      const ColumnGradient<T> column{.grad = in[0].read<T>() + d,
                                     .x = in[1].read<T>() + d,
                                     .mean = save_mean_invstd[0].read<T>()[d],
                                     .invstd = save_mean_invstd[1].read<T>()[d],
                                     .weight = value_or(weight, d, T{1}),
                                     .n_rows = n_rows,
                                     .stride = width};
      column.write(column_or_null(write_or_null<T>(grads, 0), d),
                   column_or_null(write_or_null<T>(grads, 1), d),
                   column_or_null(write_or_null<T>(grads, 2), d));
    }
  });
}

}  // namespace lockstep::detail
