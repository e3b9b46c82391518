#include <algorithm>
#include <cmath>
#include <fmt/core.h>

#include "lockstep/kernels/detail/cpu.h"
#include "lockstep/kernels/detail/elements.h"
#include "lockstep/tensor/detail/dispatch.h"

namespace lockstep::detail {

namespace {

/// The hyper-parameters as PyTorch rounds them: each scalar once, after the arithmetic among them was
/// done in double. What multiplies a 16-bit tensor stays in f32; what scales an addend does not.
template <typename T>
struct SgdScalars {
  explicit SgdScalars(const SgdUpdate& update)
      : minus_lr(-update.lr),
        weight_decay(update.weight_decay),
        fresh(1.0 - update.dampening),
        ahead(update.momentum),
        momentum(static_cast<Value<T>>(update.momentum)) {}

  ScaledAdd<T> minus_lr;
  ScaledAdd<T> weight_decay;
  ScaledAdd<T> fresh;
  ScaledAdd<T> ahead;
  Value<T> momentum;
};

/// Moves the momentum buffer and leaves in `g` what the parameter steps along.
template <typename T>
void apply_momentum(Value<T>* g, T* buffer, std::int64_t n, const SgdUpdate& update) {
  const SgdScalars<T> s(update);
  if (update.first_step) {
    each(n, [=](std::int64_t i) { buffer[i] = store<T>(g[i]); });  // Undamped, as in PyTorch.
  } else {
    each_with_tail<T>(n, [=]<bool kInTail>(std::int64_t i) {
      const Value<T> kept = settled<T>(load(buffer[i]) * s.momentum);
      buffer[i] = store<T>(s.fresh.template of<kInTail>(kept, g[i]));
    });
  }
  if (update.nesterov) {
    each_with_tail<T>(n, [=]<bool kInTail>(std::int64_t i) {
      g[i] = s.ahead.template of<kInTail>(g[i], load(buffer[i]));
    });
  } else {
    each(n, [=](std::int64_t i) { g[i] = load(buffer[i]); });
  }
}

/// A part of one parameter.
template <typename T>
struct SgdBlock {
  T* param;
  const T* grad;
  T* buffer;  ///< Null: no momentum.
  std::int64_t n;
};

/// `g`: scratch.
template <typename T>
void sgd_block(const SgdBlock<T>& block, const SgdUpdate& update, Value<T>* g) {
  const SgdScalars<T> s(update);
  T* const param = block.param;
  const T* const grad = block.grad;
  const std::int64_t n = block.n;
  if (update.maximize) {
    each(n, [=](std::int64_t i) { g[i] = -load(grad[i]); });
  } else {
    each(n, [=](std::int64_t i) { g[i] = load(grad[i]); });
  }
  if (update.weight_decay != 0.0) {
    each_with_tail<T>(n, [=]<bool kInTail>(std::int64_t i) {
      g[i] = s.weight_decay.template of<kInTail>(g[i], load(param[i]));
    });
  }
  if (update.momentum != 0.0) apply_momentum(g, block.buffer, n, update);
  each_with_tail<T>(n, [=]<bool kInTail>(std::int64_t i) {
    param[i] = store<T>(s.minus_lr.template of<kInTail>(load(param[i]), g[i]));
  });
}

}  // namespace

void CpuKernels::sgd(const Tensor& param,
                     const Tensor& grad,
                     const Tensor& momentum_buffer,
                     const SgdUpdate& update) {
  const std::int64_t n = agreed_elems(param, grad);
  const bool with_momentum = update.momentum != 0.0;
  if (with_momentum) agreed_elems(param, momentum_buffer);
  for_real(param.dtype(), [&](auto tag) {
    using T = decltype(tag);
    T* const p = param.write<T>();
    const T* const g = grad.read<T>();
    if (!with_momentum && update.weight_decay == 0.0 && !update.maximize) {
      const ScaledAdd<T> minus_lr(-update.lr);
      each_with_tail<T>(n, [=]<bool kInTail>(std::int64_t i) {
        p[i] = store<T>(minus_lr.template of<kInTail>(load(p[i]), load(g[i])));
      });
      return;
    }
    T* const buffer = with_momentum ? momentum_buffer.write<T>() : nullptr;
    for (std::int64_t i = 0; i < n; i += BlockScratch::kElems) {
      const SgdBlock<T> block{.param = p + i,
                              .grad = g + i,
                              .buffer = with_momentum ? buffer + i : nullptr,
                              .n = std::min(BlockScratch::kElems, n - i)};
      sgd_block(block, update, scratch_.first<Value<T>>());
    }
  });
}

void CpuKernels::average_into_bucket(const Tensor& out, const Tensor& grad, double divisor) {
  const std::int64_t n = agreed_elems(out, grad);
  LOCKSTEP_CHECK(out.dtype() == grad.dtype(),
                 fmt::format("a bucket of {} cannot hold a gradient of {}",
                             name_of(out.dtype()),
                             name_of(grad.dtype())));
  LOCKSTEP_CHECK(
      is_floating(out.dtype()),
      fmt::format("cannot average {}: only floating-point gradients have a mean", grad.text()));
  for_any(out.dtype(), [&](auto tag) {
    using T = decltype(tag);  // 16-bit floats compute in f32 and round once.
    const auto factor = static_cast<Value<T>>(1.0 / divisor);
    T* const o = static_cast<T*>(out.write_raw());
    const T* const g = static_cast<const T*>(grad.read_raw());
    each(n, [=](std::int64_t i) { o[i] = store<T>(load(g[i]) * factor); });
  });
}

}  // namespace lockstep::detail
