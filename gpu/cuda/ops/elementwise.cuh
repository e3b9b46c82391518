// One element in, one element out.
#pragma once

#include <cstddef>

#include "lockstep/gpu/cuda/ops/math.cuh"

namespace lockstep::cuda {

template <typename T>
struct Fill {
  T* out;
  T value;

  LOCKSTEP_BOTH void operator()(std::int64_t i) const { out[i] = value; }
};

/// out[i] = op(in[i]), computed in T.
template <typename T, typename Op>
struct Map {
  T* out;
  const T* in;
  Op op;

  LOCKSTEP_BOTH void operator()(std::int64_t i) const {
    out[i] = detail::store<T>(op(detail::load(in[i])));
  }
};

/// out[i] = op(a[i], b[i]), computed in T.
template <typename T, typename Op>
struct Zip {
  T* out;
  const T* a;
  const T* b;
  Op op;

  LOCKSTEP_BOTH void operator()(std::int64_t i) const {
    out[i] = detail::store<T>(op(detail::load(a[i]), detail::load(b[i])));
  }
};

/// out[i] = a[i] + row[i / inner % n].
template <typename T>
struct AddSpread {
  T* out;
  const T* a;
  const T* row;
  std::int64_t inner;
  std::int64_t n;

  LOCKSTEP_BOTH void operator()(std::int64_t i) const { out[i] = a[i] + row[i / inner % n]; }
};

template <typename T>
struct Same {
  LOCKSTEP_BOTH T operator()(T x) const { return x; }
};

template <typename V>
struct Plus {
  LOCKSTEP_BOTH V operator()(V a, V b) const { return a + b; }
};

template <typename V>
struct Minus {
  LOCKSTEP_BOTH V operator()(V a, V b) const { return a - b; }
};

template <typename V>
struct Times {
  LOCKSTEP_BOTH V operator()(V a, V b) const { return a * b; }
};

template <typename V>
struct Over {
  LOCKSTEP_BOTH V operator()(V a, V b) const { return a / b; }
};

template <typename V>
struct TimesNumber {
  V factor;

  LOCKSTEP_BOTH V operator()(V x) const { return x * factor; }
};

template <typename V>
struct OverNumber {
  V divisor;

  LOCKSTEP_BOTH V operator()(V x) const { return x / divisor; }
};

template <typename V>
struct PlusScaled {
  V alpha;

  LOCKSTEP_BOTH V operator()(V a, V b) const { return fused(b, alpha, a); }
};

template <typename V>
struct Relu {
  LOCKSTEP_BOTH V operator()(V x) const { return x < V{0} ? V{0} : x; }
};

template <typename V>
struct ReluSlope {
  LOCKSTEP_BOTH V operator()(V grad, V y) const { return y <= V{0} ? V{0} : grad; }
};

template <typename V>
struct Tanh {
  LOCKSTEP_BOTH V operator()(V x) const { return tanh_of(x); }
};

template <typename V>
struct TanhSlope {
  LOCKSTEP_BOTH V operator()(V grad, V y) const { return grad * fused(-y, y, V{1}); }
};

template <typename V>
struct Sigmoid {
  LOCKSTEP_BOTH V operator()(V x) const { return V{1} / (V{1} + exp_of(-x)); }
};

template <typename V>
struct SigmoidSlope {
  LOCKSTEP_BOTH V operator()(V grad, V y) const { return grad * (V{1} - y) * y; }
};

template <typename V>
struct Exp {
  LOCKSTEP_BOTH V operator()(V x) const { return exp_of(x); }
};

template <typename V>
struct Log {
  LOCKSTEP_BOTH V operator()(V x) const { return log_of(x); }
};

template <typename V>
struct Sqrt {
  LOCKSTEP_BOTH V operator()(V x) const { return root_of(x); }
};

template <typename V>
struct RoundToGrid {
  V steps;
  V bound;

  LOCKSTEP_BOTH V operator()(V x) const {
    const V rounded = nearest_of(x * steps) / steps;
    const V below = rounded > bound ? bound : rounded;
    return below < -bound ? -bound : below;
  }
};

template <typename V>
struct Clamp {
  V high;

  LOCKSTEP_BOTH V operator()(V x) const {
    const V above = x < -high ? -high : x;
    return above > high ? high : above;
  }
};

/// ((2 / denominator) * (x - target)) * grad_out.
template <typename T>
struct MseSlope {
  T* out;
  const T* grad_out;
  const T* x;
  const T* target;
  T norm;

  LOCKSTEP_BOTH void operator()(std::int64_t i) const {
    out[i] = norm * (x[i] - target[i]) * *grad_out;
  }
};

/// sign(x - target) * (grad_out / denominator).
template <typename T>
struct L1Slope {
  T* out;
  const T* grad_out;
  const T* x;
  const T* target;
  T denominator;

  LOCKSTEP_BOTH void operator()(std::int64_t i) const {
    const T above = x[i] > target[i] ? T{1} : T{0};
    const T below = x[i] < target[i] ? T{1} : T{0};
    out[i] = (above - below) * (*grad_out / denominator);
  }
};

/// Any dtype into any other, by one switch at run time: 81 pairs would be 81 kernels.
struct Convert {
  std::byte* out;
  const std::byte* in;
  DType to;
  DType from;

  template <typename T>
  LOCKSTEP_BOTH auto element(std::int64_t i) const {
    return detail::load(reinterpret_cast<const T*>(in)[i]);
  }

  template <typename T, typename V>
  LOCKSTEP_BOTH void put(std::int64_t i, V value) const {
    reinterpret_cast<T*>(out)[i] = detail::store<T>(value);
  }

  template <typename V>
  LOCKSTEP_BOTH void write(std::int64_t i, V value) const {
    switch (to) {
      case DType::kF32:
        return put<float>(i, value);
      case DType::kF64:
        return put<double>(i, value);
      case DType::kF16:
        return put<detail::Half>(i, value);
      case DType::kBF16:
        return put<detail::BFloat>(i, value);
      case DType::kI8:
        return put<std::int8_t>(i, value);
      case DType::kU8:
        return put<std::uint8_t>(i, value);
      case DType::kI32:
        return put<std::int32_t>(i, value);
      case DType::kI64:
        return put<std::int64_t>(i, value);
      case DType::kBool:
        return put<detail::Boolean>(i, value);
    }
  }

  LOCKSTEP_BOTH void operator()(std::int64_t i) const {
    switch (from) {
      case DType::kF32:
        return write(i, element<float>(i));
      case DType::kF64:
        return write(i, element<double>(i));
      case DType::kF16:
        return write(i, element<detail::Half>(i));
      case DType::kBF16:
        return write(i, element<detail::BFloat>(i));
      case DType::kI8:  // Widening is exact, so one kind of integer is enough from here on.
        return write(i, static_cast<std::int64_t>(element<std::int8_t>(i)));
      case DType::kU8:
        return write(i, static_cast<std::int64_t>(element<std::uint8_t>(i)));
      case DType::kI32:
        return write(i, static_cast<std::int64_t>(element<std::int32_t>(i)));
      case DType::kI64:
        return write(i, element<std::int64_t>(i));
      case DType::kBool:
        return write(i, static_cast<std::int64_t>(element<detail::Boolean>(i)));
    }
  }
};

}  // namespace lockstep::cuda
