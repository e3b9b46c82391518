// Softmax, cross entropy, layer norm and GELU: one index a row where a row is summed.
#pragma once

#include <numbers>

#include "lockstep/gpu/cuda/ops/math.cuh"

namespace lockstep::cuda {

/// As std::max_element: the first of equals, and a NaN only where it comes first.
template <typename T>
LOCKSTEP_BOTH T largest_of(const T* x, std::int64_t n) {
  T largest = x[0];
  in_order(
      n - 1,
      [&](std::int64_t c) { return x[c + 1]; },
      [&](T value) {
        if (largest < value) largest = value;
      });
  return largest;
}

template <typename T>
LOCKSTEP_BOTH void log_softmax_row(T* out, const T* x, std::int64_t n) {
  const T largest = largest_of(x, n);
  T sum{0};
  const auto at = [&](std::int64_t c) { return x[c]; };
  in_order(n, at, [&](T value) { sum += exp_of(value - largest); });
  const T log_sum = log_of(sum);
  T* next = out;
  in_order(n, at, [&](T value) { *next++ = value - largest - log_sum; });
}

/// The columns of row r that a softmax sees.
LOCKSTEP_BOTH inline std::int64_t seen(std::int64_t r, std::int64_t width, bool causal) {
  return causal ? r % width + 1 : width;
}

template <typename T>
struct SoftmaxRow {
  T* out;
  const T* in;
  std::int64_t width;
  bool log;
  bool causal;

  LOCKSTEP_BOTH void operator()(std::int64_t r) const {
    T* const o = out + r * width;
    const T* const x = in + r * width;
    const std::int64_t n = seen(r, width, causal);
    if (log) {
      log_softmax_row(o, x, n);
    } else {
      const T largest = largest_of(x, n);
      T sum{0};
      T* next = o;
      in_order(
          n,
          [&](std::int64_t c) { return x[c]; },
          [&](T value) {
            const T power = exp_of(value - largest);
            *next++ = power;
            sum += power;
          });
      next = o;
      in_order(
          n, [&](std::int64_t c) { return o[c]; }, [&](T power) { *next++ = power / sum; });
    }
    for (std::int64_t c = n; c < width; ++c) o[c] = T{0};
  }
};

template <typename T>
struct SoftmaxSlopeRow {
  T* out;
  const T* grad;
  const T* y;
  std::int64_t width;
  bool log;
  bool causal;

  LOCKSTEP_BOTH void operator()(std::int64_t r) const {
    T* const o = out + r * width;
    const T* const g = grad + r * width;
    const T* const p = y + r * width;
    const std::int64_t n = seen(r, width, causal);
    T sum{0};
    const auto both = [&](std::int64_t c) { return Pair<T>{g[c], p[c]}; };
    in_order(n, both, [&](const Pair<T>& at) { sum += log ? at.a : at.a * at.b; });
    T* next = o;
    in_order(n, both, [&](const Pair<T>& at) {
      *next++ = log ? at.a - exp_of(at.b) * sum : at.b * (at.a - sum);
    });
    for (std::int64_t c = n; c < width; ++c) o[c] = T{0};
  }
};

// Constants are formed in double and rounded once to T.
template <typename T>
struct GeluOf {
  bool by_tanh;

  LOCKSTEP_BOTH T operator()(T x) const {
    const T half = static_cast<T>(0.5);
    if (!by_tanh) return x * half * (T{1} + erf_of(x * inverse_root_two()));
    return half * x * (T{1} + tanh_of(inner(x)));
  }

  LOCKSTEP_BOTH static T inverse_root_two() { return static_cast<T>(1.0 / std::numbers::sqrt2); }

  LOCKSTEP_BOTH static T inner(T x) {
    return beta() * (x + static_cast<T>(0.044715) * (x * x * x));
  }

  LOCKSTEP_BOTH static T beta() {
    return static_cast<T>(std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
  }
};

template <typename T>
struct GeluSlope {
  bool by_tanh;

  LOCKSTEP_BOTH T operator()(T grad, T x) const { return grad * slope(x); }

  LOCKSTEP_BOTH T slope(T x) const {
    const T half = static_cast<T>(0.5);
    if (!by_tanh) {
      const T density = static_cast<T>(std::numbers::inv_sqrtpi / std::numbers::sqrt2);
      const T cdf = half * (T{1} + erf_of(x * GeluOf<T>::inverse_root_two()));
      const T pdf = density * exp_of(-half * (x * x));
      return cdf + x * pdf;
    }
    const T kappa = static_cast<T>(0.044715);
    const T bent = tanh_of(GeluOf<T>::inner(x));
    const T inner_slope = GeluOf<T>::beta() * (T{1} + T{3} * kappa * (x * x));
    return half * (T{1} + bent) + half * x * (T{1} - bent * bent) * inner_slope;
  }
};

template <typename T>
struct LayerNormStatistics {
  T* mean;
  T* invstd;
  const T* x;
  std::int64_t width;
  T eps;

  LOCKSTEP_BOTH void operator()(std::int64_t r) const {
    const T* const in = x + r * width;
    const T n = static_cast<T>(width);
    T sum{0};
    const auto at = [&](std::int64_t c) { return in[c]; };
    in_order(width, at, [&](T value) { sum += value; });
    const T middle = sum / n;
    T squares{0};
    in_order(width, at, [&](T value) { squares += (value - middle) * (value - middle); });
    mean[r] = middle;
    invstd[r] = T{1} / root_of(squares / n + eps);
  }
};

template <typename T>
struct LayerNormElement {
  T* out;
  const T* x;
  const T* weight;
  const T* bias;
  const T* mean;
  const T* invstd;
  std::int64_t width;

  LOCKSTEP_BOTH void operator()(std::int64_t i) const {
    const std::int64_t r = i / width;
    const std::int64_t c = i % width;
    out[i] = fused((x[i] - mean[r]) * invstd[r], weight[c], bias[c]);
  }
};

/// With h = normalised x and d = grad * weight: dx = (d - mean(d) - h * mean(d * h)) * invstd.
template <typename T>
struct LayerNormSlopeRow {
  T* dx;
  const T* grad;
  const T* x;
  const T* weight;
  const T* mean;
  const T* invstd;
  std::int64_t width;

  LOCKSTEP_BOTH void operator()(std::int64_t r) const {
    const T* const g = grad + r * width;
    const T* const in = x + r * width;
    T sum{0};
    T dot{0};
    const T middle = mean[r];
    const T slope = invstd[r];
    // a: the gradient with its weight, b: the normalised x.
    const auto both = [&](std::int64_t c) {
      return Pair<T>{g[c] * weight[c], (in[c] - middle) * slope};
    };
    in_order(width, both, [&](const Pair<T>& at) {
      sum += at.a;
      dot += at.a * at.b;
    });
    sum /= static_cast<T>(width);
    dot /= static_cast<T>(width);
    T* next = dx + r * width;
    in_order(width, both, [&](const Pair<T>& at) { *next++ = (at.a - sum - at.b * dot) * slope; });
  }
};

/// The gradients of weight and bias: column c, rows ascending, from +0.
template <typename T>
struct LayerNormSlopeColumn {
  T* d_weight;
  T* d_bias;
  const T* grad;
  const T* x;
  const T* mean;
  const T* invstd;
  std::int64_t n_rows;
  std::int64_t width;

  LOCKSTEP_BOTH void operator()(std::int64_t c) const {
    T weight_sum{0};
    T bias_sum{0};
    in_order(
        n_rows,
        [&](std::int64_t r) {
          return Pair<T>{grad[r * width + c], (x[r * width + c] - mean[r]) * invstd[r]};
        },
        [&](const Pair<T>& at) {
          weight_sum += at.a * at.b;
          bias_sum += at.a;
        });
    d_weight[c] = weight_sum;
    d_bias[c] = bias_sum;
  }
};

/// Log-softmax of row r, checked against its label.
template <typename T>
struct LogProbsRow {
  T* log_probs;
  const T* x;
  const std::int64_t* labels;
  std::int64_t n_classes;
  Fault* fault;

  LOCKSTEP_BOTH void operator()(std::int64_t r) const {
    log_softmax_row(log_probs + r * n_classes, x + r * n_classes, n_classes);
    if (labels[r] < 0 || labels[r] >= n_classes) *fault = Fault::kLabel;
  }
};

template <typename T>
struct CrossEntropy {
  T* out;
  const T* log_probs;
  const std::int64_t* labels;
  std::int64_t n_rows;
  std::int64_t n_classes;
  T denominator;

  LOCKSTEP_BOTH void operator()(std::int64_t /*one*/) const {
    T sum{0};
    in_order(
        n_rows,
        [&](std::int64_t r) {
          const std::int64_t label = labels[r];
          const bool known = label >= 0 && label < n_classes;  // Else LogProbsRow has reported it.
          return known ? log_probs[r * n_classes + label] : T{0};
        },
        [&](T log_prob) { sum -= log_prob; });
    *out = sum / denominator;
  }
};

template <typename T>
struct CrossEntropySlope {
  T* out;
  const T* grad_out;
  const T* log_probs;
  const std::int64_t* labels;
  std::int64_t n_classes;
  T denominator;
  Fault* fault;

  LOCKSTEP_BOTH void operator()(std::int64_t i) const {
    const std::int64_t label = labels[i / n_classes];
    const T grad = *grad_out / denominator;
    const T all = exp_of(log_probs[i]) * grad;
    out[i] = i % n_classes == label ? all - grad : all;
    if (label < 0 || label >= n_classes) *fault = Fault::kLabel;
  }
};

}  // namespace lockstep::cuda
