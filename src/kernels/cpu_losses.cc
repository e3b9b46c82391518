#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <fmt/core.h>

#include "lockstep/kernels/detail/cpu.h"
#include "lockstep/kernels/detail/elements.h"
#include "lockstep/kernels/detail/log_softmax.h"
#include "lockstep/tensor/detail/dispatch.h"

namespace lockstep::detail {

namespace {

/// out = (sum of f(x[i] - target[i]), i ascending) / denominator. In 16 bits PyTorch stores each
/// difference and each term; sum and quotient are one operation in f32.
template <typename F>
void loss_of_difference(
    const Tensor& out, const Tensor& x, const Tensor& target, double denominator, F f) {
  const std::int64_t n = agreed_elems(x, target);
  LOCKSTEP_CHECK(out.n_elems() == 1, fmt::format("a loss is a scalar, not {}", out.text()));
  for_real(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const T* const a = x.read<T>();
    const T* const b = target.read<T>();
    Value<T> sum{0};
    for (std::int64_t i = 0; i < n; ++i) {
      sum += settled<T>(f(settled<T>(load(a[i]) - load(b[i]))));
    }
    *out.write<T>() = rounded<T>(sum / static_cast<Value<T>>(denominator));
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

/// The sum that PyTorch's nll_loss forms of 16-bit terms, rounding each addition. Digits of the row's
/// number, `bits` bits each, decide when a partial sum moves up a level; the first row moves up to the
/// last one.
/// Source: PyTorch LossNLL.cpp, nll_loss_out_frame.
template <typename T>
class CascadeSum {
 public:
  explicit CascadeSum(std::int64_t n_rows) {
    const auto width = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(n_rows - 1)));
    bits_ = std::max(4, width / static_cast<int>(kLevels));
  }

  void subtract(std::int64_t row, Value<T> term) {
    partial_[0] = settled<T>(partial_[0] - term);
    const std::int64_t digit = (std::int64_t{1} << bits_) - 1;
    for (std::size_t level = 0; level + 1 < kLevels; ++level) {
      if ((row & (digit << (static_cast<int>(level) * bits_))) != 0) return;
      partial_[level + 1] = settled<T>(partial_[level + 1] + partial_[level]);
      partial_[level] = 0;
    }
  }

  Value<T> total() const {
    Value<T> sum{0};
    for (const Value<T> part : partial_) sum = settled<T>(sum + part);
    return sum;
  }

 private:
  static constexpr std::size_t kLevels = 8;
  int bits_;
  std::array<Value<T>, kLevels> partial_{};
};

/// f32 and f64: one sum, rows ascending.
template <typename T>

requires(!kWrapped<T>) class CascadeSum<T> {
 public:
  explicit CascadeSum(std::int64_t /*n_rows*/) {}

  void subtract(std::int64_t /*row*/, T term) { sum_ -= term; }

  T total() const { return sum_; }

 private:
  T sum_{0};
};

}  // namespace

void CpuKernels::mse(const Tensor& out, const Tensor& x, const Tensor& target, double denominator) {
  loss_of_difference(out, x, target, denominator, [](auto d) { return d * d; });
}

void CpuKernels::l1(const Tensor& out, const Tensor& x, const Tensor& target, double denominator) {
  loss_of_difference(out, x, target, denominator, [](auto d) { return std::fabs(d); });
}

// PyTorch's order: ((2 / denominator) * (x - target)) * grad_out, the quotient formed in double. Every
// step rounds, in 16 bits too.
void CpuKernels::mse_backward(const Tensor& out,
                              const Tensor& grad_out,
                              const Tensor& x,
                              const Tensor& target,
                              double denominator) {
  const std::int64_t n = agreed_elems(out, x, target);
  for_real(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const Value<T> norm = settled<T>(static_cast<Value<T>>(2.0 / denominator));
    const Value<T> grad = load(*grad_out.read<T>());
    T* const o = out.write<T>();
    const T* const a = x.read<T>();
    const T* const b = target.read<T>();
    each(n, [=](std::int64_t i) {
      const Value<T> apart = settled<T>(load(a[i]) - load(b[i]));
      o[i] = rounded<T>(settled<T>(norm * apart) * grad);
    });
  });
}

// PyTorch's order: sign(x - target) * (grad_out / denominator).
void CpuKernels::l1_backward(const Tensor& out,
                             const Tensor& grad_out,
                             const Tensor& x,
                             const Tensor& target,
                             double denominator) {
  const std::int64_t n = agreed_elems(out, x, target);
  for_real(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const Value<T> grad =
        settled<T>(load(*grad_out.read<T>()) / static_cast<Value<T>>(denominator));
    T* const o = out.write<T>();
    const T* const a = x.read<T>();
    const T* const b = target.read<T>();
    each(n, [=](std::int64_t i) {
      using V = Value<T>;
      const V above = load(a[i]) > load(b[i]) ? V{1} : V{0};
      const V below = load(a[i]) < load(b[i]) ? V{1} : V{0};
      o[i] = store<T>((above - below) * grad);
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
  for_real(x.dtype(), [&, rows = n_rows, n = n_classes](auto tag) {
    using T = decltype(tag);
    CascadeSum<T> sum(rows);
    for (std::int64_t row = 0; row < rows; ++row) {
      T* const logs = log_probs.write<T>() + row * n;
      log_softmax_row(logs, x.read<T>() + row * n, n);
      sum.subtract(row, load(logs[checked_label(label, row, n)]));
    }
    *out.write<T>() = rounded<T>(sum.total() / static_cast<Value<T>>(denominator));
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
  for_real(out.dtype(), [&, rows = n_rows, n = n_classes](auto tag) {
    using T = decltype(tag);
    const Value<T> grad =
        settled<T>(load(*grad_out.read<T>()) / static_cast<Value<T>>(denominator));
    for (std::int64_t row = 0; row < rows; ++row) {
      T* const o = out.write<T>() + row * n;
      const T* const logs = log_probs.read<T>() + row * n;
      const std::int64_t truth = checked_label(label, row, n);
      each(n, [=](std::int64_t c) { o[c] = rounded<T>(std::exp(load(logs[c])) * grad); });
      if constexpr (kWrapped<T>) {  // What stands there is rounded already.
        o[truth] = rounded<T>(std::exp(load(logs[truth])) * grad - grad);
      } else {
        o[truth] -= grad;
      }
    }
  });
}

}  // namespace lockstep::detail
