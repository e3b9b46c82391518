// Optimizers that scale each element by its own history, and what scaling and clipping need.
#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/core.h>

#include "lockstep/kernels/detail/cpu.h"
#include "lockstep/kernels/detail/elements.h"
#include "lockstep/tensor/detail/dispatch.h"

namespace lockstep::detail {

namespace {

constexpr std::size_t kLanes = 8;

/// One parameter's memory from some element on; lists that do not exist are null.
template <typename T>
struct Rows {
  T* param;
  const T* grad;
  std::array<T*, 3> kept;

  void advance(std::int64_t n) {
    param += n;
    grad += n;
    for (T*& list : kept) {
      if (list != nullptr) list += n;
    }
  }
};

template <typename T>
Rows<T> rows_of(const Tensor& param, const Tensor& grad, std::span<const Tensor> kept) {
  Rows<T> rows{.param = param.write<T>(), .grad = grad.read<T>(), .kept = {}};
  for (std::size_t k = 0; k < kept.size(); ++k) {
    agreed_elems(param, kept[k]);
    rows.kept[k] = kept[k].write<T>();
  }
  return rows;
}

/// Runs `update(rows, n)` on consecutive blocks.
template <typename T, typename F>
void in_blocks(Rows<T> rows, std::int64_t n_elems, F update) {
  for (std::int64_t i = 0; i < n_elems; i += BlockScratch::kElems) {
    const std::int64_t n = std::min(BlockScratch::kElems, n_elems - i);
    update(rows, n);
    rows.advance(n);
  }
}

/// g = the gradient, turned around when maximizing, plus the L2 decay.
template <typename T>
void load_gradient(Value<T>* g, const Rows<T>& rows, std::int64_t n, double decay, bool maximize) {
  const T* const grad = rows.grad;
  const T* const param = rows.param;
  if (maximize) {
    each(n, [=](std::int64_t i) { g[i] = -load(grad[i]); });
  } else {
    each(n, [=](std::int64_t i) { g[i] = load(grad[i]); });
  }
  if (decay == 0.0) return;
  const ScaledAdd<T> sum(decay);
  each_with_tail<T>(n, [=]<bool kInTail>(std::int64_t i) {
    g[i] = sum.template of<kInTail>(g[i], load(param[i]));
  });
}

/// mean = decay * mean + (1 - decay) * g, in the rounding of either generation of PyTorch.
template <typename T>
void move_mean(T* mean, const Value<T>* g, std::int64_t n, double decay, bool lerp) {
  using V = Value<T>;
  const V fresh = static_cast<V>(1.0 - decay);
  if (!lerp) {
    const V keep = static_cast<V>(decay);
    const ScaledAdd<T> sum(1.0 - decay);
    each_with_tail<T>(n, [=]<bool kInTail>(std::int64_t i) {
      mean[i] = store<T>(sum.template of<kInTail>(settled<T>(load(mean[i]) * keep), g[i]));
    });
  } else if (fresh < V{0.5}) {
    each(n, [=](std::int64_t i) {
      mean[i] = rounded<T>(std::fma(fresh, g[i] - load(mean[i]), load(mean[i])));
    });
  } else {
    const V back = fresh - V{1};
    each(n,
         [=](std::int64_t i) { mean[i] = rounded<T>(std::fma(back, g[i] - load(mean[i]), g[i])); });
  }
}

/// square = decay * square + (1 - decay) * g * g.
template <typename T>
void move_square(T* square, const Value<T>* g, std::int64_t n, double decay) {
  const auto fresh = static_cast<Value<T>>(1.0 - decay);
  const auto keep = static_cast<Value<T>>(decay);
  each(n, [=](std::int64_t i) {
    square[i] = rounded<T>(std::fma(fresh * g[i], g[i], settled<T>(load(square[i]) * keep)));
  });
}

/// out += (factor * a) / b, three roundings in f32 and f64, one of 16-bit floats.
template <typename T, typename A>
void add_quotient(T* out, const A* a, const Value<T>* b, std::int64_t n, Value<T> factor) {
  each(n,
       [=](std::int64_t i) { out[i] = rounded<T>(load(out[i]) + (factor * load(a[i])) / b[i]); });
}

/// The double arithmetic of one Adam step, each result rounded once. What is added to a 16-bit tensor
/// is a 16-bit number; factors and divisors stay in f32.
template <typename T>
struct AdamScalars {
  using V = Value<T>;

  explicit AdamScalars(const AdamUpdate& u)
      : shrink(static_cast<V>(1.0 - u.lr * u.weight_decay)),
        minus_step_size(static_cast<V>(-(u.lr / (1.0 - std::pow(u.beta1, u.step))))),
        root_correction(static_cast<V>(std::sqrt(1.0 - std::pow(u.beta2, u.step)))),
        eps(load(store<T>(u.eps))) {}

  V shrink;
  V minus_step_size;
  V root_correction;
  V eps;
};

/// `g`: scratch, as the following functions have it.
template <typename T>
void adam_block(const Rows<T>& rows,
                std::int64_t n,
                const AdamUpdate& update,
                const AdamScalars<T>& s,
                Value<T>* g) {
  T* const param = rows.param;
  load_gradient(g, rows, n, update.decoupled ? 0.0 : update.weight_decay, update.maximize);
  if (update.decoupled) {
    each(n, [=](std::int64_t i) { param[i] = rounded<T>(load(param[i]) * s.shrink); });
  }

  move_mean(rows.kept[0], g, n, update.beta1, update.lerp);
  move_square(rows.kept[1], g, n, update.beta2);
  const T* square = rows.kept[1];
  if (update.amsgrad) {
    T* const largest = rows.kept[2];
    const T* const now = rows.kept[1];
    each(n, [=](std::int64_t i) {
      const Value<T> fresh = load(now[i]);
      largest[i] = load(largest[i]) < fresh || std::isnan(fresh) ? now[i] : largest[i];
    });
    square = largest;
  }
  each(n, [=](std::int64_t i) {
    const Value<T> root = settled<T>(std::sqrt(load(square[i])));
    g[i] = settled<T>(settled<T>(root / s.root_correction) + s.eps);
  });
  add_quotient(param, rows.kept[0], g, n, s.minus_step_size);
}

template <typename T>
void rmsprop_block(const Rows<T>& rows,
                   std::int64_t n,
                   const RmspropUpdate& update,
                   BlockScratch& scratch) {
  using V = Value<T>;
  const V eps = load(store<T>(update.eps));
  V* const g = scratch.first<V>();
  V* const root = scratch.second<V>();
  load_gradient(g, rows, n, update.weight_decay, update.maximize);

  const T* const square = rows.kept[0];
  move_square(rows.kept[0], g, n, update.alpha);
  const bool with_momentum = update.momentum > 0.0;
  if (update.centered) {
    T* const mean = rows.kept[with_momentum ? 2 : 1];
    move_mean(mean, g, n, update.alpha, update.lerp);
    each(n, [=](std::int64_t i) {
      const V variance = settled<T>(std::fma(-load(mean[i]), load(mean[i]), load(square[i])));
      root[i] = settled<T>(settled<T>(std::sqrt(variance)) + eps);
    });
  } else {
    each(n, [=](std::int64_t i) {
      root[i] = settled<T>(settled<T>(std::sqrt(load(square[i]))) + eps);
    });
  }

  T* const param = rows.param;
  if (!with_momentum) {
    add_quotient(param, g, root, n, static_cast<V>(-update.lr));
    return;
  }
  T* const buffer = rows.kept[1];
  const V momentum = static_cast<V>(update.momentum);
  each(n, [=](std::int64_t i) {
    buffer[i] = rounded<T>(settled<T>(load(buffer[i]) * momentum) + g[i] / root[i]);
  });
  const ScaledAdd<T> minus_lr(-update.lr);
  each_with_tail<T>(n, [=]<bool kInTail>(std::int64_t i) {
    param[i] = store<T>(minus_lr.template of<kInTail>(load(param[i]), load(buffer[i])));
  });
}

double in_order(const std::array<double, kLanes>& lanes) {
  double total = lanes[0];
  for (std::size_t lane = 1; lane < kLanes; ++lane) total += lanes[lane];
  return total;
}

/// Adds f(lane, element) lane by lane.
template <typename T, typename F>
double lane_sum(std::span<const T> x, F f) {
  std::array<double, kLanes> lanes{};
  std::size_t i = 0;
  for (; i + kLanes <= x.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = f(lanes[lane], static_cast<double>(load(x[i + lane])));
    }
  }
  for (; i < x.size(); ++i)
    lanes[i % kLanes] = f(lanes[i % kLanes], static_cast<double>(load(x[i])));
  return in_order(lanes);
}

template <typename T>
double largest_magnitude(std::span<const T> x) {
  Value<T> largest{0};
  for (const T element : x) {
    const Value<T> value = load(element);
    if (std::isnan(value)) return static_cast<double>(value);
    largest = std::max(largest, std::abs(value));
  }
  return static_cast<double>(largest);
}

template <typename T>
double norm_of(std::span<const T> x, double p) {
  if (std::isinf(p)) return largest_magnitude<T>(x);
  if (p == 1.0) return lane_sum<T>(x, [](double sum, double v) { return sum + std::abs(v); });
  LOCKSTEP_CHECK(p == 2.0, fmt::format("a norm of order {}: it is 1, 2 or infinity", p));
  return std::sqrt(lane_sum<T>(x, [](double sum, double v) { return std::fma(v, v, sum); }));
}

}  // namespace

void CpuKernels::adam(const Tensor& param,
                      const Tensor& grad,
                      std::span<const Tensor> moments,
                      const AdamUpdate& update) {
  const std::int64_t n_elems = agreed_elems(param, grad);
  LOCKSTEP_CHECK(moments.size() == (update.amsgrad ? 3U : 2U), "Adam has two moments, or three");
  for_real(param.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const AdamScalars<T> scalars(update);
    in_blocks(rows_of<T>(param, grad, moments), n_elems, [&](const Rows<T>& rows, std::int64_t n) {
      adam_block(rows, n, update, scalars, scratch_.first<Value<T>>());
    });
  });
}

void CpuKernels::adagrad(const Tensor& param,
                         const Tensor& grad,
                         const Tensor& sum,
                         const AdagradUpdate& update) {
  const std::int64_t n_elems = agreed_elems(param, grad);
  for_real(param.dtype(), [&](auto tag) {
    using T = decltype(tag);
    using V = Value<T>;
    const V minus_lr = static_cast<V>(-(update.lr / (1.0 + (update.step - 1.0) * update.lr_decay)));
    const V eps = load(store<T>(update.eps));
    const auto block = [&](const Rows<T>& rows, std::int64_t n) {
      V* const g = scratch_.first<V>();
      V* const root = scratch_.second<V>();
      T* const squares = rows.kept[0];
      load_gradient(g, rows, n, update.weight_decay, update.maximize);
      each(n, [=](std::int64_t i) {
        squares[i] = rounded<T>(std::fma(g[i], g[i], load(squares[i])));
        root[i] = settled<T>(settled<T>(std::sqrt(load(squares[i]))) + eps);
      });
      add_quotient(rows.param, g, root, n, minus_lr);
    };
    in_blocks(rows_of<T>(param, grad, {&sum, 1}), n_elems, block);
  });
}

void CpuKernels::rmsprop(const Tensor& param,
                         const Tensor& grad,
                         std::span<const Tensor> averages,
                         const RmspropUpdate& update) {
  const std::int64_t n_elems = agreed_elems(param, grad);
  const std::size_t wanted = 1U + (update.momentum > 0.0 ? 1U : 0U) + (update.centered ? 1U : 0U);
  LOCKSTEP_CHECK(averages.size() == wanted, "RMSprop keeps one average for each of its options");
  for_real(param.dtype(), [&](auto tag) {
    using T = decltype(tag);
    in_blocks(rows_of<T>(param, grad, averages), n_elems, [&](const Rows<T>& rows, std::int64_t n) {
      rmsprop_block(rows, n, update, scratch_);
    });
  });
}

bool CpuKernels::unscale(const Tensor& grad, double factor) {
  const std::int64_t n = grad.n_elems();
  bool finite = true;
  for_real(grad.dtype(), [&](auto tag) {
    using T = decltype(tag);
    T* const g = grad.write<T>();
    const auto by = static_cast<Value<T>>(static_cast<float>(factor));
    for (std::int64_t i = 0; i < n; ++i) finite &= std::isfinite(load(g[i]));
    each(n, [=](std::int64_t i) { g[i] = rounded<T>(load(g[i]) * by); });
  });
  return !finite;
}

void CpuKernels::clamp(const Tensor& out, const Tensor& in, double limit) {
  const std::int64_t n = agreed_elems(out, in);
  for_real(in.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const Value<T> high = load(store<T>(limit));
    const Value<T> low = -high;
    T* const o = out.write<T>();
    const T* const x = in.read<T>();
    each(n, [=](std::int64_t i) {
      const Value<T> above = load(x[i]) < low ? low : load(x[i]);
      o[i] = store<T>(above > high ? high : above);
    });
  });
}

double CpuKernels::norm(const Tensor& in, double p) {
  double result = 0.0;
  for_real(in.dtype(), [&](auto tag) {
    using T = decltype(tag);
    result = static_cast<double>(load(store<T>(norm_of<T>(in.read_span<T>(), p))));
  });
  return result;
}

}  // namespace lockstep::detail
