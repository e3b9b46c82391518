// Optimizer updates: one index an element of a parameter. Scalars come rounded to the parameter's
// dtype.
#pragma once

#include "lockstep/gpu/cuda/ops/math.cuh"

namespace lockstep::cuda {

/// The gradient, turned around when maximizing, plus the L2 decay.
template <typename T>
struct Gradient {
  const T* grad;
  const T* param;
  T decay;
  bool decays;
  bool maximize;

  LOCKSTEP_BOTH T at(std::int64_t i) const {
    const T g = maximize ? -grad[i] : grad[i];
    return decays ? fused(param[i], decay, g) : g;
  }
};

template <typename T>
struct Sgd {
  T* param;
  T* buffer;  ///< Null without momentum.
  Gradient<T> gradient;
  T minus_lr;
  T momentum;
  T fresh;
  bool first_step;
  bool nesterov;

  LOCKSTEP_BOTH void operator()(std::int64_t i) const {
    T g = gradient.at(i);
    if (buffer != nullptr) {
      buffer[i] = first_step ? g : fused(g, fresh, buffer[i] * momentum);
      g = nesterov ? fused(buffer[i], momentum, g) : buffer[i];
    }
    param[i] = fused(g, minus_lr, param[i]);
  }
};

/// mean = decay * mean + (1 - decay) * g, in the rounding of either generation of PyTorch.
template <typename T>
struct MovingMean {
  T fresh;
  T keep;
  bool lerp;

  LOCKSTEP_BOTH T next(T mean, T g) const {
    if (!lerp) return fused(g, fresh, mean * keep);
    if (fresh < static_cast<T>(0.5)) return fused(fresh, g - mean, mean);
    return fused(fresh - T{1}, g - mean, g);
  }
};

/// square = decay * square + (1 - decay) * g * g.
template <typename T>
struct MovingSquare {
  T fresh;
  T keep;

  LOCKSTEP_BOTH T next(T square, T g) const { return fused(fresh * g, g, square * keep); }
};

template <typename T>
struct Adam {
  T* param;
  T* mean;
  T* square;
  T* largest;  ///< Null without amsgrad.
  Gradient<T> gradient;
  MovingMean<T> first;
  MovingSquare<T> second;
  T shrink;
  T minus_step_size;
  T root_correction;
  T eps;
  bool decoupled;

  LOCKSTEP_BOTH void operator()(std::int64_t i) const {
    const T g = gradient.at(i);
    if (decoupled) param[i] = param[i] * shrink;
    mean[i] = first.next(mean[i], g);
    const T now = second.next(square[i], g);
    square[i] = now;
    T used = now;
    if (largest != nullptr) {
      used = largest[i] < now || is_nan(now) ? now : largest[i];
      largest[i] = used;
    }
    const T below = root_of(used) / root_correction + eps;
    param[i] = param[i] + (minus_step_size * mean[i]) / below;
  }
};

template <typename T>
struct Adagrad {
  T* param;
  T* squares;
  Gradient<T> gradient;
  T minus_lr;
  T eps;

  LOCKSTEP_BOTH void operator()(std::int64_t i) const {
    const T g = gradient.at(i);
    squares[i] = fused(g, g, squares[i]);
    param[i] = param[i] + (minus_lr * g) / (root_of(squares[i]) + eps);
  }
};

template <typename T>
struct Rmsprop {
  T* param;
  T* square;
  T* buffer;  ///< Null without momentum.
  T* mean;    ///< Null unless centered.
  Gradient<T> gradient;
  MovingMean<T> first;
  MovingSquare<T> second;
  T minus_lr;
  T momentum;
  T eps;

  LOCKSTEP_BOTH void operator()(std::int64_t i) const {
    const T g = gradient.at(i);
    square[i] = second.next(square[i], g);
    T spread = square[i];
    if (mean != nullptr) {
      mean[i] = first.next(mean[i], g);
      spread = fused(-mean[i], mean[i], square[i]);
    }
    const T root = root_of(spread) + eps;
    if (buffer == nullptr) {
      param[i] = param[i] + (minus_lr * g) / root;
      return;
    }
    buffer[i] = buffer[i] * momentum + g / root;
    param[i] = fused(buffer[i], minus_lr, param[i]);
  }
};

}  // namespace lockstep::cuda
