// Batch norm: one index per channel for sums over a channel, one per element for everything else.
//
// x is (outer, channels, inner): the rows of (B, D) have inner = 1.
#pragma once

#include "lockstep/gpu/cuda/ops/math.cuh"

namespace lockstep::cuda {

struct Planes {
  std::int64_t outer = 0;
  std::int64_t channels = 0;
  std::int64_t inner = 1;

  LOCKSTEP_BOTH std::int64_t count() const { return outer * inner; }

  LOCKSTEP_BOTH std::int64_t n_elems() const { return outer * channels * inner; }

  LOCKSTEP_BOTH std::int64_t channel_of(std::int64_t i) const { return i / inner % channels; }
};

/// Calls take(load(i)) for every flat position i of channel c: ascending within images, then over images.
template <typename Load, typename Take>
LOCKSTEP_BOTH void over_channel(const Planes& planes,
                                std::int64_t c,
                                const Load& load,
                                const Take& take) {
  if (planes.inner == 1) {
    const auto row = [&](std::int64_t n) { return load(n * planes.channels + c); };
    return in_order(planes.outer, row, take);
  }
  for (std::int64_t n = 0; n < planes.outer; ++n) {
    const std::int64_t first = (n * planes.channels + c) * planes.inner;
    in_order(
        planes.inner, [&](std::int64_t i) { return load(first + i); }, take);
  }
}

template <typename T>
LOCKSTEP_BOTH T value_or(const T* data, std::int64_t i, T otherwise) {
  return data == nullptr ? otherwise : data[i];
}

/// Mean and sum of squared deviations of channel c.
template <typename T>
struct ChannelStatistics {
  T mean;
  T squares;

  LOCKSTEP_BOTH static ChannelStatistics of(const T* x, const Planes& planes, std::int64_t c) {
    const T n = static_cast<T>(planes.count());
    ChannelStatistics result{T{0}, T{0}};
    const auto at = [&](std::int64_t i) { return x[i]; };
    over_channel(planes, c, at, [&](T value) { result.mean += value; });
    result.mean /= n;
    over_channel(planes, c, at, [&](T value) {
      const T deviation = value - result.mean;
      result.squares += deviation * deviation;
    });
    return result;
  }
};

/// Statistics of channel c for batch_norm; moves the running ones in training.
template <typename T>
struct BatchNormChannel {
  T* mean;
  T* invstd;
  T* running_mean;  ///< May be null, as running_var.
  T* running_var;
  const T* x;
  Planes planes;
  T momentum;
  T eps;
  bool training;

  LOCKSTEP_BOTH void move(T* running, std::int64_t c, T value) const {
    if (running != nullptr) running[c] = momentum * value + (T{1} - momentum) * running[c];
  }

  LOCKSTEP_BOTH void operator()(std::int64_t c) const {
    T middle = value_or(running_mean, c, T{0});
    T variance = value_or(running_var, c, T{1});
    if (training) {
      const auto statistics = ChannelStatistics<T>::of(x, planes, c);
      middle = statistics.mean;
      variance = statistics.squares / static_cast<T>(planes.count());
      move(running_mean, c, middle);
      move(running_var, c, statistics.squares / static_cast<T>(planes.count() - 1));
    }
    mean[c] = middle;
    invstd[c] = T{1} / root_of(variance + eps);
  }
};

/// (x - mean) * (invstd * weight) + bias.
template <typename T>
struct BatchNormElement {
  T* out;
  const T* x;
  const T* weight;
  const T* bias;
  const T* mean;
  const T* invstd;
  Planes planes;

  LOCKSTEP_BOTH void operator()(std::int64_t i) const {
    const std::int64_t c = planes.channel_of(i);
    const T slope = invstd[c] * value_or(weight, c, T{1});
    out[i] = (x[i] - mean[c]) * slope + value_or(bias, c, T{0});
  }
};

/// Sums of grad and of grad * x_hat over channel c.
template <typename T>
struct BatchNormSlopeChannel {
  T* sums;
  T* dots;
  T* grad_weight;  ///< May be null, as grad_bias.
  T* grad_bias;
  const T* grad;
  const T* x;
  const T* mean;
  const T* invstd;
  Planes planes;

  LOCKSTEP_BOTH void operator()(std::int64_t c) const {
    T sum{0};
    T dot{0};
    const T middle = mean[c];
    const T slope = invstd[c];
    over_channel(
        planes,
        c,
        [&](std::int64_t i) {
          return Pair<T>{grad[i], x[i]};
        },
        [&](const Pair<T>& both) {
          sum += both.a;
          dot += both.a * ((both.b - middle) * slope);
        });
    sums[c] = sum;
    dots[c] = dot;
    if (grad_weight != nullptr) grad_weight[c] = dot;
    if (grad_bias != nullptr) grad_bias[c] = sum;
  }
};

template <typename T>
struct BatchNormSlopeElement {
  T* out;
  const T* grad;
  const T* x;
  const T* weight;
  const T* mean;
  const T* invstd;
  const T* sums;
  const T* dots;
  Planes planes;

  LOCKSTEP_BOTH void operator()(std::int64_t i) const {
    const std::int64_t c = planes.channel_of(i);
    const T n = static_cast<T>(planes.count());
    const T slope = invstd[c] * value_or(weight, c, T{1});
    const T x_hat = (x[i] - mean[c]) * invstd[c];
    out[i] = (grad[i] - sums[c] / n - x_hat * (dots[c] / n)) * slope;
  }
};

/// {mean, 1 / sqrt(biased variance + eps)} of channel c.
template <typename T>
struct SyncStatistics {
  T* mean;
  T* invstd;
  const T* x;
  Planes planes;
  T eps;

  LOCKSTEP_BOTH void operator()(std::int64_t c) const {
    const auto statistics = ChannelStatistics<T>::of(x, planes, c);
    mean[c] = statistics.mean;
    invstd[c] = T{1} / root_of(statistics.squares / static_cast<T>(planes.count()) + eps);
  }
};

/// Merges the ranks' rows {mean, invstd, count} of channel c, ranks ascending.
template <typename T>
struct SyncMerge {
  T* mean;
  T* invstd;
  T* running_mean;  ///< May be null, as running_var.
  T* running_var;
  const T* rows;
  std::int64_t n_rows;
  std::int64_t channels;
  T momentum;
  T eps;

  struct Merged {
    T mean;
    T squares;
    T count;

    LOCKSTEP_BOTH void add(T other_mean, T other_invstd, T other_count, T eps) {
      const T deviation = T{1} / other_invstd;
      const T other_squares = (deviation * deviation - eps) * other_count;
      const T factor = T{1} / (count + other_count);
      const T apart = mean - other_mean;
      squares += other_squares + apart * apart * count * other_count * factor;
      mean = count * factor * mean + other_count * factor * other_mean;
      count += other_count;
    }
  };

  LOCKSTEP_BOTH void move(T* running, std::int64_t c, T value) const {
    if (running != nullptr) running[c] = (T{1} - momentum) * running[c] + momentum * value;
  }

  LOCKSTEP_BOTH void operator()(std::int64_t c) const {
    Merged merged{T{0}, T{0}, T{0}};
    for (std::int64_t r = 0; r < n_rows; ++r) {
      const T* const row = rows + r * (2 * channels + 1);
      const T count = row[2 * channels];
      if (count >= T{1}) merged.add(row[c], row[channels + c], count, eps);
    }
    mean[c] = merged.mean;
    invstd[c] = T{1} / root_of(merged.squares / merged.count + eps);
    move(running_mean, c, merged.mean);
    move(running_var, c, merged.squares / (merged.count - T{1}));
  }
};

/// weight * (x - mean) * invstd + bias.
template <typename T>
struct SyncApply {
  T* out;
  const T* x;
  const T* weight;
  const T* bias;
  const T* mean;
  const T* invstd;
  Planes planes;

  LOCKSTEP_BOTH void operator()(std::int64_t i) const {
    const std::int64_t c = planes.channel_of(i);
    const T scaled = value_or(weight, c, T{1}) * (x[i] - mean[c]) * invstd[c];
    out[i] = scaled + value_or(bias, c, T{0});
  }
};

/// Sums of grad and of grad * (x - mean) over channel c.
template <typename T>
struct SyncSums {
  T* sums;
  T* grad_weight;  ///< May be null, as grad_bias.
  T* grad_bias;
  const T* grad;
  const T* x;
  const T* mean;
  const T* invstd;
  Planes planes;

  LOCKSTEP_BOTH void operator()(std::int64_t c) const {
    T sum{0};
    T dot{0};
    const T middle = mean[c];
    over_channel(
        planes,
        c,
        [&](std::int64_t i) {
          return Pair<T>{grad[i], x[i]};
        },
        [&](const Pair<T>& both) {
          sum += both.a;
          dot += both.a * (both.b - middle);
        });
    sums[c] = sum;
    sums[planes.channels + c] = dot;
    if (grad_weight != nullptr) grad_weight[c] = dot * invstd[c];
    if (grad_bias != nullptr) grad_bias[c] = sum;
  }
};

template <typename T>
struct SyncSpread {
  T* out;
  const T* grad;
  const T* x;
  const T* weight;
  const T* mean;
  const T* invstd;
  const T* sums;
  Planes planes;
  T share;

  LOCKSTEP_BOTH void operator()(std::int64_t i) const {
    const std::int64_t c = planes.channel_of(i);
    const T mean_grad = sums[c] * share;
    const T slope = invstd[c] * (invstd[c] * sums[planes.channels + c] * share);
    const T scale = value_or(weight, c, T{1}) * invstd[c];
    out[i] = (grad[i] - mean_grad - (x[i] - mean[c]) * slope) * scale;
  }
};

}  // namespace lockstep::cuda
