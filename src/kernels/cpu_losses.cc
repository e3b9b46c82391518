#include <algorithm>
#include <cmath>
#include <fmt/core.h>

#include "lockstep/kernels/detail/cpu.h"
#include "lockstep/kernels/detail/elements.h"
#include "lockstep/tensor/detail/dispatch.h"

namespace lockstep::detail {

namespace {

/// out = (sum of f(x[i] - target[i]), i ascending) / denominator.
template <typename F>
void loss_of_difference(
    const Tensor& out, const Tensor& x, const Tensor& target, double denominator, F f) {
  const std::int64_t n = agreed_elems(x, target);
  LOCKSTEP_CHECK(out.n_elems() == 1, fmt::format("a loss is a scalar, not {}", out.text()));
  for_float(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const T* const a = x.read<T>();
    const T* const b = target.read<T>();
    T sum{0};
    for (std::int64_t i = 0; i < n; ++i) sum += f(a[i] - b[i]);
    *out.write<T>() = sum / static_cast<T>(denominator);
  });
}

struct ClassRows {
  std::int64_t n_rows;
  std::int64_t n_classes;
};

ClassRows class_rows(const Tensor& x, const Tensor& labels) {
  LOCKSTEP_CHECK(x.shape().n_dims() == 2,
                 fmt::format("class scores have shape (B, C), not {}", x.text()));
  LOCKSTEP_CHECK(labels.n_elems() == x.size(0),
                 fmt::format("{} labels for {}: one label per row", labels.n_elems(), x.text()));
  return {x.size(0), x.size(1)};
}

std::int64_t checked_label(const std::int64_t* labels, std::int64_t row, std::int64_t n_classes) {
  const std::int64_t label = labels[row];
  LOCKSTEP_CHECK(
      label >= 0 && label < n_classes,
      fmt::format("row {} has label {}, but there are {} classes", row, label, n_classes));
  return label;
}

template <typename T>
void log_softmax_row(T* out, const T* x, std::int64_t n) {
  const T largest = *std::max_element(x, x + n);
  T sum{0};
  for (std::int64_t c = 0; c < n; ++c) sum += std::exp(x[c] - largest);
  const T log_sum = std::log(sum);
  each(n, [=](std::int64_t c) { out[c] = x[c] - largest - log_sum; });
}

}  // namespace

void CpuKernels::mse(const Tensor& out, const Tensor& x, const Tensor& target, double denominator) {
  loss_of_difference(out, x, target, denominator, [](auto d) { return d * d; });
}

void CpuKernels::l1(const Tensor& out, const Tensor& x, const Tensor& target, double denominator) {
  loss_of_difference(out, x, target, denominator, [](auto d) { return std::fabs(d); });
}

// PyTorch's order: ((2 / denominator) * (x - target)) * grad_out, the quotient formed in double.
void CpuKernels::mse_backward(const Tensor& out,
                              const Tensor& grad_out,
                              const Tensor& x,
                              const Tensor& target,
                              double denominator) {
  const std::int64_t n = agreed_elems(out, x, target);
  for_float(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const T norm = static_cast<T>(2.0 / denominator);
    const T grad = static_cast<T>(*grad_out.read<T>());
    T* const o = out.write<T>();
    const T* const a = x.read<T>();
    const T* const b = target.read<T>();
    each(n, [=](std::int64_t i) { o[i] = norm * (a[i] - b[i]) * grad; });
  });
}

// PyTorch's order: sign(x - target) * (grad_out / denominator).
void CpuKernels::l1_backward(const Tensor& out,
                             const Tensor& grad_out,
                             const Tensor& x,
                             const Tensor& target,
                             double denominator) {
  const std::int64_t n = agreed_elems(out, x, target);
  for_float(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const T grad = *grad_out.read<T>() / static_cast<T>(denominator);
    T* const o = out.write<T>();
    const T* const a = x.read<T>();
    const T* const b = target.read<T>();
    each(n, [=](std::int64_t i) {
      const T above = a[i] > b[i] ? T{1} : T{0};
      const T below = a[i] < b[i] ? T{1} : T{0};
      o[i] = (above - below) * grad;
    });
  });
}

void CpuKernels::cross_entropy(const Tensor& out,
                               const Tensor& log_probs,
                               const Tensor& x,
                               const Tensor& labels,
                               double denominator) {
  const auto [n_rows, n_classes] = class_rows(x, labels);
  agreed_elems(log_probs, x);
  const std::int64_t* const label = labels.read<std::int64_t>();
  for_float(x.dtype(), [&, rows = n_rows, n = n_classes](auto tag) {
    using T = decltype(tag);
    T sum{0};
    for (std::int64_t row = 0; row < rows; ++row) {
      T* const logs = log_probs.write<T>() + row * n;
      log_softmax_row(logs, x.read<T>() + row * n, n);
      sum -= logs[checked_label(label, row, n)];
    }
    *out.write<T>() = sum / static_cast<T>(denominator);
  });
}

void CpuKernels::cross_entropy_backward(const Tensor& out,
                                        const Tensor& grad_out,
                                        const Tensor& log_probs,
                                        const Tensor& labels,
                                        double denominator) {
  const auto [n_rows, n_classes] = class_rows(log_probs, labels);
  agreed_elems(out, log_probs);
  const std::int64_t* const label = labels.read<std::int64_t>();
  for_float(out.dtype(), [&, rows = n_rows, n = n_classes](auto tag) {
    using T = decltype(tag);
    const T grad = *grad_out.read<T>() / static_cast<T>(denominator);
    for (std::int64_t row = 0; row < rows; ++row) {
      T* const o = out.write<T>() + row * n;
      const T* const logs = log_probs.read<T>() + row * n;
      const std::int64_t truth = checked_label(label, row, n);
      each(n, [=](std::int64_t c) { o[c] = std::exp(logs[c]) * grad; });
      o[truth] -= grad;
    }
  });
}

}  // namespace lockstep::detail
