// Softmax, GELU and layer norm: rows of the last dimension, one after the other.
#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/core.h>
#include <numbers>

#include "lockstep/kernels/detail/cpu.h"
#include "lockstep/kernels/detail/elements.h"
#include "lockstep/kernels/detail/log_softmax.h"
#include "lockstep/tensor/detail/dispatch.h"

namespace lockstep::detail {

namespace {

struct Rows {
  std::int64_t n_rows;
  std::int64_t width;
};

Rows rows_of(const Tensor& tensor) {
  const Shape& shape = tensor.shape();
  LOCKSTEP_CHECK(shape.n_dims() > 0, "a scalar has no rows to normalise");
  const std::int64_t width = shape[shape.n_dims() - 1];
  LOCKSTEP_CHECK(width > 0, fmt::format("{} has empty rows", tensor.text()));
  return {tensor.n_elems() / width, width};
}

Rows softmax_rows(const Tensor& tensor, const Kernels::Softmax& options) {
  const Shape& shape = tensor.shape();
  const std::size_t n = shape.n_dims();
  LOCKSTEP_CHECK(!options.causal || (!options.log && n >= 2 && shape[n - 1] == shape[n - 2]),
                 fmt::format("a causal softmax takes square (..., T, T) and no logarithm, not {}",
                             tensor.text()));
  return rows_of(tensor);
}

template <typename T>
void softmax_row(T* out, const T* x, std::int64_t n, bool log) {
  if (log) return log_softmax_row(out, x, n);
  const Value<T> largest = largest_of(x, n);
  Value<T> sum{0};
  if constexpr (kWrapped<T>) {  // The row has no room for exponentials in f32: they come twice.
    for (std::int64_t c = 0; c < n; ++c) sum += std::exp(load(x[c]) - largest);
    each(n, [=](std::int64_t c) { out[c] = rounded<T>(std::exp(load(x[c]) - largest) / sum); });
  } else {
    for (std::int64_t c = 0; c < n; ++c) {
      out[c] = std::exp(x[c] - largest);
      sum += out[c];
    }
    each(n, [=](std::int64_t c) { out[c] = out[c] / sum; });
  }
}

template <typename T>
void softmax_backward_row(T* out, const T* grad, const T* y, std::int64_t n, bool log) {
  Value<T> sum{0};
  if (log) {
    for (std::int64_t c = 0; c < n; ++c) sum += load(grad[c]);
    for (std::int64_t c = 0; c < n; ++c) {
      out[c] = rounded<T>(load(grad[c]) - std::exp(load(y[c])) * sum);
    }
    return;
  }
  for (std::int64_t c = 0; c < n; ++c) sum += load(grad[c]) * load(y[c]);
  each(n, [=](std::int64_t c) { out[c] = rounded<T>(load(y[c]) * (load(grad[c]) - sum)); });
}

// Constants are formed in double and rounded once to T, as PyTorch's are.
template <typename T>
struct GeluConstants {
  static constexpr T kInvSqrt2 = static_cast<T>(1.0 / std::numbers::sqrt2);
  static constexpr T kInvSqrt2Pi = static_cast<T>(std::numbers::inv_sqrtpi / std::numbers::sqrt2);
  static constexpr T kBeta = static_cast<T>(std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
  static constexpr T kKappa = static_cast<T>(0.044715);
  static constexpr T kHalf = static_cast<T>(0.5);
};

template <typename T>
[[gnu::always_inline]] inline T gelu_of(T x, Kernels::Gelu form) {
  using C = GeluConstants<T>;
  if (form == Kernels::Gelu::kErf) return x * C::kHalf * (T{1} + std::erf(x * C::kInvSqrt2));
  const T inner = C::kBeta * (x + C::kKappa * (x * x * x));
  return C::kHalf * x * (T{1} + std::tanh(inner));
}

template <typename T>
[[gnu::always_inline]] inline T gelu_slope(T x, Kernels::Gelu form) {
  using C = GeluConstants<T>;
  if (form == Kernels::Gelu::kErf) {
    const T cdf = C::kHalf * (T{1} + std::erf(x * C::kInvSqrt2));
    const T pdf = C::kInvSqrt2Pi * std::exp(-C::kHalf * (x * x));
    return cdf + x * pdf;
  }
  const T bent = std::tanh(C::kBeta * (x + C::kKappa * (x * x * x)));
  const T inner_slope = C::kBeta * (T{1} + T{3} * C::kKappa * (x * x));
  return C::kHalf * (T{1} + bent) + C::kHalf * x * (T{1} - bent * bent) * inner_slope;
}

template <typename T>
struct LayerNormRow {
  T mean{0};
  T invstd{0};
};

template <typename T>
LayerNormRow<Value<T>> statistics_of(const T* x, std::int64_t n, double eps) {
  using V = Value<T>;
  LayerNormRow<V> row;
  for (std::int64_t c = 0; c < n; ++c) row.mean += load(x[c]);
  row.mean /= static_cast<V>(n);
  V squares{0};
  for (std::int64_t c = 0; c < n; ++c) {
    squares += (load(x[c]) - row.mean) * (load(x[c]) - row.mean);
  }
  row.invstd = V{1} / std::sqrt(squares / static_cast<V>(n) + static_cast<V>(eps));
  return row;
}

/// Calls f(element of rows, element of parameters): of one type, or 16-bit rows with f32 parameters.
template <typename F>
void for_rows_and_parameters(const Tensor& rows, const Tensor& parameters, F f) {
  for_real(rows.dtype(), [&](auto tag) {
    using T = decltype(tag);
    if constexpr (kWrapped<T>) {
      if (parameters.dtype() == DType::kF32) return f(T{}, float{});
    }
    f(T{}, T{});
  });
}

// With h = normalised x and d = grad * weight: dx = (d - mean(d) - h * mean(d * h)) * invstd. The sums
// of the parameters' gradients are kept in the type of the rows, also if parameters are f32: 16-bit
// ones round after every row.
template <typename T, typename Parameter>
struct LayerNormGradient {
  using V = Value<T>;

  const Parameter* weight;
  T* d_weight;
  T* d_bias;
  std::int64_t n;

  void add_row(T* dx, const T* grad, const T* x, LayerNormRow<V> row) const {
    V sum{0};
    V dot{0};
    for (std::int64_t c = 0; c < n; ++c) {
      const V h = (load(x[c]) - row.mean) * row.invstd;
      sum += load(grad[c]) * load(weight[c]);
      dot += load(grad[c]) * load(weight[c]) * h;
      d_weight[c] = rounded<T>(load(d_weight[c]) + load(grad[c]) * h);
      d_bias[c] = rounded<T>(load(d_bias[c]) + load(grad[c]));
    }
    sum /= static_cast<V>(n);
    dot /= static_cast<V>(n);
    for (std::int64_t c = 0; c < n; ++c) {
      const V h = (load(x[c]) - row.mean) * row.invstd;
      dx[c] = rounded<T>((load(grad[c]) * load(weight[c]) - sum - h * dot) * row.invstd);
    }
  }
};

}  // namespace

void CpuKernels::softmax(const Tensor& out, const Tensor& in, const Softmax& options) {
  agreed_elems(out, in);
  const Rows rows = softmax_rows(in, options);
  for_real(in.dtype(), [&](auto tag) {
    using T = decltype(tag);
    for (std::int64_t r = 0; r < rows.n_rows; ++r) {
      T* const o = out.write<T>() + r * rows.width;
      const std::int64_t n = options.causal ? r % rows.width + 1 : rows.width;
      softmax_row(o, in.read<T>() + r * rows.width, n, options.log);
      std::fill(o + n, o + rows.width, T{0});
    }
  });
}

void CpuKernels::softmax_backward(const Tensor& out,
                                  const Tensor& grad,
                                  const Tensor& y,
                                  const Softmax& options) {
  agreed_elems(out, grad, y);
  const Rows rows = softmax_rows(y, options);
  for_real(y.dtype(), [&](auto tag) {
    using T = decltype(tag);
    for (std::int64_t r = 0; r < rows.n_rows; ++r) {
      const std::int64_t at = r * rows.width;
      T* const o = out.write<T>() + at;
      const std::int64_t n = options.causal ? r % rows.width + 1 : rows.width;
      softmax_backward_row(o, grad.read<T>() + at, y.read<T>() + at, n, options.log);
      std::fill(o + n, o + rows.width, T{0});
    }
  });
}

void CpuKernels::gelu(const Tensor& out, const Tensor& in, Gelu form) {
  const std::int64_t n = agreed_elems(out, in);
  for_real(in.dtype(), [&](auto tag) {
    using T = decltype(tag);
    T* const o = out.write<T>();
    const T* const x = in.read<T>();
    each(n, [=](std::int64_t i) { o[i] = rounded<T>(gelu_of(load(x[i]), form)); });
  });
}

void CpuKernels::gelu_backward(const Tensor& out, const Tensor& grad, const Tensor& x, Gelu form) {
  const std::int64_t n = agreed_elems(out, grad, x);
  for_real(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    T* const o = out.write<T>();
    const T* const g = grad.read<T>();
    const T* const in = x.read<T>();
    each(n, [=](std::int64_t i) { o[i] = rounded<T>(load(g[i]) * gelu_slope(load(in[i]), form)); });
  });
}

void CpuKernels::layer_norm(const Tensor& out,
                            std::span<const Tensor> x_weight_bias,
                            std::span<const Tensor> save_mean_invstd,
                            double eps) {
  const Tensor& x = x_weight_bias[0];
  agreed_elems(out, x);
  const Rows rows = rows_of(x);
  for_rows_and_parameters(x, x_weight_bias[1], [&](auto tag, auto parameter) {
    using T = decltype(tag);
    using P = decltype(parameter);
    const P* const weight = x_weight_bias[1].read<P>();
    const P* const bias = x_weight_bias[2].read<P>();
    for (std::int64_t r = 0; r < rows.n_rows; ++r) {
      const T* const in = x.read<T>() + r * rows.width;
      T* const o = out.write<T>() + r * rows.width;
      const LayerNormRow<Value<T>> row = statistics_of(in, rows.width, eps);
      save_mean_invstd[0].write<P>()[r] = rounded<P>(row.mean);
      save_mean_invstd[1].write<P>()[r] = rounded<P>(row.invstd);
      each(rows.width, [=](std::int64_t c) {
        const Value<T> normalised = (load(in[c]) - row.mean) * row.invstd;
        o[c] = rounded<T>(std::fma(normalised, load(weight[c]), load(bias[c])));
      });
    }
  });
}

void CpuKernels::layer_norm_backward(std::span<const Tensor> grads,
                                     std::span<const Tensor> in,
                                     std::span<const Tensor> save_mean_invstd) {
  const Tensor& x = in[1];
  agreed_elems(grads[0], in[0], x);
  const Rows rows = rows_of(x);
  fill(grads[1], 0.0);
  fill(grads[2], 0.0);
  for_rows_and_parameters(x, in[2], [&](auto tag, auto parameter) {
    using T = decltype(tag);
    using P = decltype(parameter);
    const LayerNormGradient<T, P> gradient{
        in[2].read<P>(), grads[1].write<T>(), grads[2].write<T>(), rows.width};
    for (std::int64_t r = 0; r < rows.n_rows; ++r) {
      const std::int64_t at = r * rows.width;
      const LayerNormRow<Value<T>> row{load(save_mean_invstd[0].read<P>()[r]),
                                       load(save_mean_invstd[1].read<P>()[r])};
      gradient.add_row(grads[0].write<T>() + at, in[0].read<T>() + at, x.read<T>() + at, row);
    }
  });
}

}  // namespace lockstep::detail
