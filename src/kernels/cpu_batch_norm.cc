#include <cmath>
#include <fmt/core.h>
#include <type_traits>

#include "lockstep/kernels/detail/cpu.h"
#include "lockstep/kernels/detail/elements.h"
#include "lockstep/tensor/detail/dispatch.h"

namespace lockstep::detail {

namespace {

/// Mean and sum of squared deviations of one column, rows ascending.
template <typename V>
struct ColumnStatistics {
  V mean{0};
  V squares{0};
};

template <typename T>
ColumnStatistics<Value<T>> statistics_of(const T* column,
                                         std::int64_t n_rows,
                                         std::int64_t stride) {
  using V = Value<T>;
  ColumnStatistics<V> result;
  for (std::int64_t row = 0; row < n_rows; ++row) result.mean += load(column[row * stride]);
  result.mean /= static_cast<V>(n_rows);
  for (std::int64_t row = 0; row < n_rows; ++row) {
    const V deviation = load(column[row * stride]) - result.mean;
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
Value<T> value_or(const T* data, std::int64_t i, Value<T> otherwise) {
  return data == nullptr ? otherwise : load(data[i]);
}

/// What a batch says about one column.
template <typename V>
struct ColumnMoments {
  V mean;
  V variance;  ///< Biased: what the batch is normalised with.
  V unbiased;  ///< What the running variance moves towards.
};

/// The quotient of a sum and a count, both of which bf16 holds as bf16: so does PyTorch.
template <typename T>
Value<T> mean_square(Value<T> squares, std::int64_t n) {
  if constexpr (std::is_same_v<T, BFloat>) {
    return settled<T>(squares / settled<T>(static_cast<float>(n)));
  } else {
    return squares / static_cast<Value<T>>(n);
  }
}

template <typename T>
ColumnMoments<Value<T>> moments_of(ColumnStatistics<Value<T>> statistics, std::int64_t n_rows) {
  if constexpr (std::is_same_v<T, BFloat>) {
    statistics = {settled<T>(statistics.mean), settled<T>(statistics.squares)};
  }
  return {.mean = statistics.mean,
          .variance = mean_square<T>(statistics.squares, n_rows),
          .unbiased = mean_square<T>(statistics.squares, n_rows - 1)};
}

/// Moves a column's running mean and variance. In bf16 every factor and product with a bf16 number is
/// one, too: all but the unbiased variance, which PyTorch has in f32.
template <typename T>
void move_running(T* mean, T* variance, const ColumnMoments<Value<T>>& moments, double momentum) {
  using V = Value<T>;
  if constexpr (std::is_same_v<T, BFloat>) {
    const V fresh = load(store<T>(momentum));
    const V kept = load(store<T>(1.0 - momentum));
    const V kept_mean = settled<T>(kept * load(*mean));
    *mean = rounded<T>(settled<T>(fresh * moments.mean) + kept_mean);
    *variance = rounded<T>(fresh * moments.unbiased + settled<T>(kept * load(*variance)));
  } else {
    const V fresh = static_cast<V>(momentum);
    *mean = rounded<T>(fresh * moments.mean + (V{1} - fresh) * load(*mean));
    *variance = rounded<T>(fresh * moments.unbiased + (V{1} - fresh) * load(*variance));
  }
}

/// Writes a statistic of evaluation as it is, which a 16-bit layer keeps in f32, and one of training as
/// an element: its backward reads what was rounded.
template <typename T>
Value<T> save(std::span<const Tensor> saved, std::size_t i, std::int64_t column, Value<T> value) {
  if (i >= saved.size() || !saved[i].defined()) return value;
  if (kWrapped<T> && saved[i].dtype() == DType::kF32) {
    saved[i].write<float>()[column] = static_cast<float>(value);
    return value;
  }
  T& kept = saved[i].write<T>()[column];
  kept = rounded<T>(value);
  return load(kept);
}

/// One column of the backward pass; null pointers are gradients that are not needed.
template <typename T>
struct ColumnGradient {
  using V = Value<T>;

  const T* grad;
  const T* x;
  V mean;
  V invstd;
  V weight;
  std::int64_t n_rows;
  std::int64_t stride;

  V x_hat(std::int64_t row) const { return (load(x[row * stride]) - mean) * invstd; }

  void write(T* grad_x, T* grad_weight, T* grad_bias) const {
    V sum{0};
    V dot{0};
    for (std::int64_t row = 0; row < n_rows; ++row) {
      sum += load(grad[row * stride]);
      dot += load(grad[row * stride]) * x_hat(row);
    }
    if (grad_weight != nullptr) *grad_weight = rounded<T>(dot);
    if (grad_bias != nullptr) *grad_bias = rounded<T>(sum);
    if (grad_x == nullptr) return;
    const V slope = invstd * weight;
    const V mean_grad = sum / static_cast<V>(n_rows);
    const V mean_dot = dot / static_cast<V>(n_rows);
    for (std::int64_t row = 0; row < n_rows; ++row) {
      const V off = load(grad[row * stride]) - mean_grad - x_hat(row) * mean_dot;
      grad_x[row * stride] = rounded<T>(off * slope);
    }
  }
};

/// Where statistics are kept, moves those of column `d`.
template <typename T, typename Moments>
void move_kept(T* mean, T* var, std::int64_t d, const Moments& moments, double momentum) {
  if (mean != nullptr) move_running(mean + d, var + d, moments, momentum);
}

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
  for_real(out.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const T* const x = x_weight_bias[0].read<T>();
    const T* const weight = read_or_null<T>(x_weight_bias, 1);
    const T* const bias = read_or_null<T>(x_weight_bias, 2);
    T* const running_mean = write_or_null<T>(running_mean_var, 0);
    T* const running_var = write_or_null<T>(running_mean_var, 1);
    for (std::int64_t d = 0; d < width; ++d) {
      using V = Value<T>;
      V mean = value_or<T>(running_mean, d, V{0});
      V variance = value_or<T>(running_var, d, V{1});
      if (options.training) {
        const auto moments = moments_of<T>(statistics_of(x + d, n_rows, width), n_rows);
        mean = moments.mean;
        variance = moments.variance;
        move_kept(running_mean, running_var, d, moments, options.momentum);
      }
      const V invstd = V{1} / std::sqrt(variance + static_cast<V>(options.eps));
      const V kept_mean = save<T>(save_mean_invstd, 0, d, mean);
      const V slope = save<T>(save_mean_invstd, 1, d, invstd) * value_or(weight, d, V{1});
      const V shift = value_or(bias, d, V{0});
      T* const o = out.write<T>() + d;
      for (std::int64_t row = 0; row < n_rows; ++row) {
        o[row * width] = rounded<T>((load(x[row * width + d]) - kept_mean) * slope + shift);
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
  for_real(in[0].dtype(), [&](auto tag) {
    using T = decltype(tag);
    const T* const weight = read_or_null<T>(in, 2);
    for (std::int64_t d = 0; d < width; ++d) {
      const ColumnGradient<T> column{.grad = in[0].read<T>() + d,
                                     .x = in[1].read<T>() + d,
                                     .mean = load(save_mean_invstd[0].read<T>()[d]),
                                     .invstd = load(save_mean_invstd[1].read<T>()[d]),
                                     .weight = value_or(weight, d, Value<T>{1}),
                                     .n_rows = n_rows,
                                     .stride = width};
      column.write(column_or_null(write_or_null<T>(grads, 0), d),
                   column_or_null(write_or_null<T>(grads, 1), d),
                   column_or_null(write_or_null<T>(grads, 2), d));
    }
  });
}

}  // namespace lockstep::detail
