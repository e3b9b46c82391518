#include <cmath>
#include <fmt/core.h>

#include "lockstep/kernels/detail/cpu.h"
#include "lockstep/kernels/detail/elements.h"
#include "lockstep/tensor/detail/dispatch.h"

namespace lockstep::detail {

namespace {

/// x (N, C, ...) as planes of `inner` elements.
struct Planes {
  std::int64_t outer = 0;
  std::int64_t channels = 0;
  std::int64_t inner = 0;

  std::int64_t count() const { return outer * inner; }

  /// Calls use(flat index) for each element of a channel, ascending.
  template <typename F>
  void each(std::int64_t channel, F use) const {
    for (std::int64_t n = 0; n < outer; ++n) {
      const std::int64_t first = (n * channels + channel) * inner;
      for (std::int64_t i = first; i < first + inner; ++i) use(i);
    }
  }
};

Planes planes_of(const Tensor& x) {
  const Shape& shape = x.shape();
  LOCKSTEP_CHECK(
      shape.n_dims() >= 2,
      fmt::format("batch norm needs a dimension of channels, which {} has not", x.text()));
  Planes planes{.outer = shape[0], .channels = shape[1], .inner = 1};
  for (std::size_t d = 2; d < shape.n_dims(); ++d) planes.inner *= shape[d];
  return planes;
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
T value_or(const T* data, std::int64_t i, T otherwise) {
  return data == nullptr ? otherwise : data[i];
}

/// Statistics of one channel over the ranks seen so far.
template <typename T>
struct MergedChannel {
  T mean{0};
  T squares{0};
  T count{0};

  void add(T other_mean, T other_invstd, T other_count, T eps) {
    const T deviation = T{1} / other_invstd;
    const T other_squares = (deviation * deviation - eps) * other_count;
    const T factor = T{1} / (count + other_count);
    const T apart = mean - other_mean;
    squares += other_squares + apart * apart * count * other_count * factor;
    mean = count * factor * mean + other_count * factor * other_mean;
    count += other_count;
  }
};

}  // namespace

void CpuKernels::batch_norm_stats(std::span<const Tensor> mean_invstd,
                                  const Tensor& x,
                                  double eps) {
  const Planes planes = planes_of(x);
  LOCKSTEP_CHECK(planes.count() > 0, fmt::format("{} has no statistics: it is empty", x.text()));
  for_float(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const T* const values = x.read<T>();
    const T n = static_cast<T>(planes.count());
    for (std::int64_t c = 0; c < planes.channels; ++c) {
      T sum{0};
      planes.each(c, [&](std::int64_t i) { sum += values[i]; });
      const T mean = sum / n;
      T squares{0};
      planes.each(c, [&](std::int64_t i) {
        const T deviation = values[i] - mean;
        squares += deviation * deviation;
      });
      mean_invstd[0].write<T>()[c] = mean;
      mean_invstd[1].write<T>()[c] = T{1} / std::sqrt(squares / n + static_cast<T>(eps));
    }
  });
}

void CpuKernels::batch_norm_merge_stats(std::span<const Tensor> mean_invstd,
                                        std::span<const Tensor> running_mean_var,
                                        const Tensor& rows,
                                        const BatchNorm& options) {
  const std::int64_t channels = mean_invstd[0].n_elems();
  const std::int64_t width = 2 * channels + 1;
  LOCKSTEP_CHECK(rows.shape().n_dims() == 2 && rows.size(1) == width,
                 fmt::format("{} does not hold rows of mean, invstd and count", rows.text()));
  for_float(rows.dtype(), [&](auto tag) {
    using T = decltype(tag);
    T* const running_mean = write_or_null<T>(running_mean_var, 0);
    T* const running_var = write_or_null<T>(running_mean_var, 1);
    const T eps = static_cast<T>(options.eps);
    const T momentum = static_cast<T>(options.momentum);
    for (std::int64_t c = 0; c < channels; ++c) {
      MergedChannel<T> merged;
      for (std::int64_t r = 0; r < rows.size(0); ++r) {
        const T* const row = rows.read<T>() + r * width;
        const T count = row[2 * channels];
        if (count >= T{1}) merged.add(row[c], row[channels + c], count, eps);
      }
      mean_invstd[0].write<T>()[c] = merged.mean;
      mean_invstd[1].write<T>()[c] = T{1} / std::sqrt(merged.squares / merged.count + eps);
      if (running_mean != nullptr) {
        running_mean[c] = (T{1} - momentum) * running_mean[c] + momentum * merged.mean;
      }
      if (running_var != nullptr) {
        const T unbiased = merged.squares / (merged.count - T{1});
        running_var[c] = (T{1} - momentum) * running_var[c] + momentum * unbiased;
      }
    }
  });
}

void CpuKernels::batch_norm_apply(const Tensor& out,
                                  std::span<const Tensor> x_weight_bias,
                                  std::span<const Tensor> mean_invstd) {
  agreed_elems(out, x_weight_bias[0]);
  const Planes planes = planes_of(out);
  for_float(out.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const T* const x = x_weight_bias[0].read<T>();
    T* const o = out.write<T>();
    for (std::int64_t c = 0; c < planes.channels; ++c) {
      const T weight = value_or(read_or_null<T>(x_weight_bias, 1), c, T{1});
      const T bias = value_or(read_or_null<T>(x_weight_bias, 2), c, T{0});
      const T mean = mean_invstd[0].read<T>()[c];
      const T invstd = mean_invstd[1].read<T>()[c];
      planes.each(c, [&](std::int64_t i) { o[i] = weight * (x[i] - mean) * invstd + bias; });
    }
  });
}

void CpuKernels::batch_norm_sums(const Tensor& sums,
                                 std::span<const Tensor> weight_bias_grads,
                                 std::span<const Tensor> grad_x,
                                 std::span<const Tensor> mean_invstd) {
  agreed_elems(grad_x[0], grad_x[1]);
  const Planes planes = planes_of(grad_x[0]);
  for_float(sums.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const T* const grad = grad_x[0].read<T>();
    const T* const x = grad_x[1].read<T>();
    T* const grad_weight = write_or_null<T>(weight_bias_grads, 0);
    T* const grad_bias = write_or_null<T>(weight_bias_grads, 1);
    for (std::int64_t c = 0; c < planes.channels; ++c) {
      const T mean = mean_invstd[0].read<T>()[c];
      T sum{0};
      T dot{0};
      planes.each(c, [&](std::int64_t i) {
        sum += grad[i];
        dot += grad[i] * (x[i] - mean);
      });
      sums.write<T>()[c] = sum;
      sums.write<T>()[planes.channels + c] = dot;
      if (grad_weight != nullptr) grad_weight[c] = dot * mean_invstd[1].read<T>()[c];
      if (grad_bias != nullptr) grad_bias[c] = sum;
    }
  });
}

void CpuKernels::batch_norm_spread(const Tensor& out,
                                   std::span<const Tensor> in,
                                   std::span<const Tensor> mean_invstd,
                                   const Tensor& sums,
                                   double count) {
  agreed_elems(out, in[0]);
  const Planes planes = planes_of(out);
  for_float(out.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const T* const grad = in[0].read<T>();
    const T* const x = in[1].read<T>();
    T* const o = out.write<T>();
    const T share = T{1} / static_cast<T>(count);
    for (std::int64_t c = 0; c < planes.channels; ++c) {
      const T mean = mean_invstd[0].read<T>()[c];
      const T invstd = mean_invstd[1].read<T>()[c];
      const T mean_grad = sums.read<T>()[c] * share;
      const T slope = invstd * (invstd * sums.read<T>()[planes.channels + c] * share);
      const T scale = value_or(read_or_null<T>(in, 2), c, T{1}) * invstd;
      planes.each(
          c, [&](std::int64_t i) { o[i] = (grad[i] - mean_grad - (x[i] - mean) * slope) * scale; });
    }
  });
}

}  // namespace lockstep::detail
