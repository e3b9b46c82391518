#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/core.h>

#include "lockstep/kernels/detail/cpu.h"
#include "lockstep/kernels/detail/elements.h"
#include "lockstep/tensor/detail/dispatch.h"

namespace lockstep::detail {

namespace {

constexpr std::int64_t kBlock = 256;  // Elements whose intermediate gradient stays in L1.

/// The hyper-parameters in the parameter's dtype: PyTorch rounds each scalar once, after the
/// arithmetic among them was done in double.
template <typename T>
struct SgdScalars {
  explicit SgdScalars(const SgdUpdate& update)
      : minus_lr(static_cast<T>(-update.lr)),
        weight_decay(static_cast<T>(update.weight_decay)),
        momentum(static_cast<T>(update.momentum)),
        fresh(static_cast<T>(1.0 - update.dampening)) {}

  T minus_lr;
  T weight_decay;
  T momentum;
  T fresh;
};

/// Moves the momentum buffer and leaves in `g` what the parameter steps along.
template <typename T>
void apply_momentum(T* g, T* buffer, std::int64_t n, const SgdUpdate& update) {
  const SgdScalars<T> s(update);
  if (update.first_step) {
    each(n, [=](std::int64_t i) { buffer[i] = g[i]; });  // Undamped, as in PyTorch.
  } else {
    each(n, [=](std::int64_t i) { buffer[i] = std::fma(g[i], s.fresh, buffer[i] * s.momentum); });
  }
  if (update.nesterov) {
    each(n, [=](std::int64_t i) { g[i] = std::fma(buffer[i], s.momentum, g[i]); });
  } else {
    each(n, [=](std::int64_t i) { g[i] = buffer[i]; });
  }
}

template <typename T>
void sgd_block(T* param, const T* grad, T* buffer, std::int64_t n, const SgdUpdate& update) {
  const SgdScalars<T> s(update);
  // Written below.  NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init)
  std::array<T, kBlock> direction;
  T* const g = direction.data();
  if (update.maximize) {
    each(n, [=](std::int64_t i) { g[i] = -grad[i]; });
  } else {
    each(n, [=](std::int64_t i) { g[i] = grad[i]; });
  }
  if (update.weight_decay != 0.0) {
    each(n, [=](std::int64_t i) { g[i] = std::fma(param[i], s.weight_decay, g[i]); });
  }
  if (update.momentum != 0.0) apply_momentum(g, buffer, n, update);
  each(n, [=](std::int64_t i) { param[i] = std::fma(g[i], s.minus_lr, param[i]); });
}

}  // namespace

void CpuKernels::sgd(const Tensor& param,
                     const Tensor& grad,
                     const Tensor& momentum_buffer,
                     const SgdUpdate& update) {
  const std::int64_t n = agreed_elems(param, grad);
  const bool with_momentum = update.momentum != 0.0;
  if (with_momentum) agreed_elems(param, momentum_buffer);
  for_float(param.dtype(), [&](auto tag) {
    using T = decltype(tag);
    T* const p = param.write<T>();
    const T* const g = grad.read<T>();
    if (!with_momentum && update.weight_decay == 0.0 && !update.maximize) {
      const T minus_lr = static_cast<T>(-update.lr);
      each(n, [=](std::int64_t i) { p[i] = std::fma(g[i], minus_lr, p[i]); });
      return;
    }
    T* const buffer = with_momentum ? momentum_buffer.write<T>() : nullptr;
    for (std::int64_t i = 0; i < n; i += kBlock) {
      T* const block_buffer = with_momentum ? buffer + i : nullptr;
      sgd_block(p + i, g + i, block_buffer, std::min(kBlock, n - i), update);
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
    using T = decltype(tag);
    using Value = decltype(load(tag));  // 16-bit floats compute in f32 and round once.
    const Value factor = static_cast<Value>(1.0 / divisor);
    T* const o = static_cast<T*>(out.write_raw());
    const T* const g = static_cast<const T*>(grad.read_raw());
    each(n, [=](std::int64_t i) { o[i] = store<T>(load(g[i]) * factor); });
  });
}

}  // namespace lockstep::detail
