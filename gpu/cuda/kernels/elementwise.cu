// Kernels that give one element for one element.
#include <cmath>

#include "lockstep/gpu/cuda/detail/operands.cuh"
#include "lockstep/gpu/cuda/ops/elementwise.cuh"
#include "lockstep/gpu/cuda/ops/rows.cuh"

namespace lockstep::cuda {

namespace {

/// Calls f(Word{}) with the unsigned integer of an element's size.
template <typename F>
void for_bits(DType dtype, F f) {
  switch (size_of(dtype)) {
    case 1:
      return f(std::uint8_t{});
    case 2:
      return f(std::uint16_t{});
    case 4:
      return f(std::uint32_t{});
    default:
      return f(std::uint64_t{});
  }
}

template <typename To, typename From>
To bits_as(From value) {
  static_assert(sizeof(To) == sizeof(From));
  return std::bit_cast<To>(value);
}

}  // namespace

void CudaKernels::fill(const Tensor& out, double value) {
  for_any(out.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const T element = detail::store<T>(value);
    for_bits(out.dtype(), [&](auto word) {
      using Word = decltype(word);
      if constexpr (sizeof(Word) == sizeof(T)) {
        auto* const o = reinterpret_cast<Word*>(bytes(out));
        executor_->run(out.n_elems(), Fill<Word>{o, bits_as<Word>(element)});
      }
    });
  });
}

void CudaKernels::copy(const Tensor& out, const Tensor& in) {
  const std::int64_t n = agreed_elems(out, in);
  if (out.dtype() != in.dtype()) {
    executor_->run(n, Convert{bytes(out), bytes(in), out.dtype(), in.dtype()});
    return;
  }
  for_bits(out.dtype(), [&](auto word) {
    using Word = decltype(word);
    auto* const o = reinterpret_cast<Word*>(bytes(out));
    const auto* const x = reinterpret_cast<const Word*>(bytes(in));
    executor_->run(n, Map<Word, Same<Word>>{o, x, {}});
  });
}

/// In T and, for functors of 16-bit floats, its Value.
template <template <typename> typename Op, typename T>
void CudaKernels::map(const Tensor& out, const Tensor& in, Op<T> op) {
  const std::int64_t n = agreed_elems(out, in);
  executor_->run(n, Map<T, Op<T>>{at<T>(out), at<T>(in), op});
}

template <template <typename> typename Op>
void CudaKernels::zip(const Tensor& out, const Tensor& a, const Tensor& b) {
  const std::int64_t n = agreed_elems(out, a, b);
  for_float(out.dtype(), [&](auto tag) {
    using T = decltype(tag);
    executor_->run(n, Zip<T, Op<T>>{at<T>(out), at<T>(a), at<T>(b), {}});
  });
}

void CudaKernels::add(const Tensor& out, const Tensor& a, const Tensor& b) {
  const std::int64_t n = agreed_elems(out, a, b);
  LOCKSTEP_CHECK(a.dtype() == out.dtype() && b.dtype() == out.dtype(), "a sum has one dtype");
  for_real(out.dtype(), [&](auto tag) {
    using T = decltype(tag);
    executor_->run(n,
                   Zip<T, Plus<Value<T>>>{reinterpret_cast<T*>(bytes(out)),
                                          reinterpret_cast<const T*>(bytes(a)),
                                          reinterpret_cast<const T*>(bytes(b)),
                                          {}});
  });
}

void CudaKernels::sub(const Tensor& out, const Tensor& a, const Tensor& b) {
  if (is_narrow(out.dtype())) return host_->sub(out, a, b);
  zip<Minus>(out, a, b);
}

void CudaKernels::mul(const Tensor& out, const Tensor& a, const Tensor& b) {
  if (is_narrow(out.dtype())) return host_->mul(out, a, b);
  zip<Times>(out, a, b);
}

void CudaKernels::div(const Tensor& out, const Tensor& a, const Tensor& b) {
  if (is_narrow(out.dtype())) return host_->div(out, a, b);
  zip<Over>(out, a, b);
}

void CudaKernels::scale(const Tensor& out, const Tensor& in, double factor) {
  if (is_narrow(out.dtype())) return host_->scale(out, in, factor);
  for_float(out.dtype(), [&](auto tag) {
    using T = decltype(tag);
    map(out, in, TimesNumber<T>{static_cast<T>(factor)});
  });
}

void CudaKernels::div_scalar(const Tensor& out, const Tensor& in, double divisor) {
  const std::int64_t n = agreed_elems(out, in);
  LOCKSTEP_CHECK(in.dtype() == out.dtype(), "a quotient has the dtype of what is divided");
  for_real(out.dtype(), [&](auto tag) {
    using T = decltype(tag);
    using Op = OverNumber<Value<T>>;
    executor_->run(n,
                   Map<T, Op>{reinterpret_cast<T*>(bytes(out)),
                              reinterpret_cast<const T*>(bytes(in)),
                              Op{static_cast<Value<T>>(divisor)}});
  });
}

void CudaKernels::average_into_bucket(const Tensor& out, const Tensor& grad, double divisor) {
  const std::int64_t n = agreed_elems(out, grad);
  LOCKSTEP_CHECK(out.dtype() == grad.dtype(), "a bucket holds gradients of its own dtype");
  for_real(out.dtype(), [&](auto tag) {
    using T = decltype(tag);
    using Op = TimesNumber<Value<T>>;
    executor_->run(n,
                   Map<T, Op>{reinterpret_cast<T*>(bytes(out)),
                              reinterpret_cast<const T*>(bytes(grad)),
                              Op{static_cast<Value<T>>(1.0 / divisor)}});
  });
}

void CudaKernels::add_scaled(const Tensor& out, const Tensor& a, const Tensor& b, double alpha) {
  if (is_narrow(out.dtype())) return host_->add_scaled(out, a, b, alpha);
  const std::int64_t n = agreed_elems(out, a, b);
  for_float(out.dtype(), [&](auto tag) {
    using T = decltype(tag);
    using Op = PlusScaled<T>;
    executor_->run(n, Zip<T, Op>{at<T>(out), at<T>(a), at<T>(b), Op{static_cast<T>(alpha)}});
  });
}

void CudaKernels::add_spread(const Tensor& out,
                             const Tensor& a,
                             const Tensor& row,
                             std::int64_t inner) {
  const std::int64_t n = agreed_elems(out, a);
  for_float(out.dtype(), [&](auto tag) {
    using T = decltype(tag);
    executor_->run(n, AddSpread<T>{at<T>(out), at<T>(a), at<T>(row), inner, row.n_elems()});
  });
}

void CudaKernels::add_row(const Tensor& out, const Tensor& a, const Tensor& row) {
  if (is_narrow(out.dtype())) return host_->add_row(out, a, row);
  LOCKSTEP_CHECK(row.n_elems() > 0 && out.n_elems() % row.n_elems() == 0,
                 "the row is as long as the matrix is wide");
  add_spread(out, a, row, 1);
}

void CudaKernels::add_channels(const Tensor& out, const Tensor& a, const Tensor& channels) {
  if (is_narrow(out.dtype())) return host_->add_channels(out, a, channels);
  LOCKSTEP_CHECK(channels.n_elems() == out.size(1), "one number per channel");
  if (out.n_elems() == 0) return;
  add_spread(out, a, channels, out.n_elems() / (out.size(0) * out.size(1)));
}

void CudaKernels::relu(const Tensor& out, const Tensor& in) {
  if (is_narrow(out.dtype())) return host_->relu(out, in);
  for_float(out.dtype(), [&](auto tag) { map(out, in, Relu<decltype(tag)>{}); });
}

void CudaKernels::relu_backward(const Tensor& out, const Tensor& grad, const Tensor& y) {
  if (is_narrow(out.dtype())) return host_->relu_backward(out, grad, y);
  zip<ReluSlope>(out, grad, y);
}

void CudaKernels::tanh(const Tensor& out, const Tensor& in) {
  if (!functions_ || is_narrow(out.dtype())) return host_->tanh(out, in);
  for_float(out.dtype(), [&](auto tag) { map(out, in, Tanh<decltype(tag)>{}); });
}

void CudaKernels::tanh_backward(const Tensor& out, const Tensor& grad, const Tensor& y) {
  if (is_narrow(out.dtype())) return host_->tanh_backward(out, grad, y);
  zip<TanhSlope>(out, grad, y);
}

void CudaKernels::sigmoid(const Tensor& out, const Tensor& in) {
  if (!functions_ || is_narrow(out.dtype())) return host_->sigmoid(out, in);
  for_float(out.dtype(), [&](auto tag) { map(out, in, Sigmoid<decltype(tag)>{}); });
}

void CudaKernels::sigmoid_backward(const Tensor& out, const Tensor& grad, const Tensor& y) {
  if (is_narrow(out.dtype())) return host_->sigmoid_backward(out, grad, y);
  zip<SigmoidSlope>(out, grad, y);
}

void CudaKernels::exp(const Tensor& out, const Tensor& in) {
  if (!functions_ || is_narrow(out.dtype())) return host_->exp(out, in);
  for_float(out.dtype(), [&](auto tag) { map(out, in, Exp<decltype(tag)>{}); });
}

void CudaKernels::log(const Tensor& out, const Tensor& in) {
  if (!functions_ || is_narrow(out.dtype())) return host_->log(out, in);
  for_float(out.dtype(), [&](auto tag) { map(out, in, Log<decltype(tag)>{}); });
}

void CudaKernels::sqrt(const Tensor& out, const Tensor& in) {
  if (is_narrow(out.dtype())) return host_->sqrt(out, in);
  for_float(out.dtype(), [&](auto tag) { map(out, in, Sqrt<decltype(tag)>{}); });
}

void CudaKernels::round_to_grid(const Tensor& out, const Tensor& in, int k, double limit) {
  for_float(out.dtype(), [&](auto tag) {
    using T = decltype(tag);
    map(out, in, RoundToGrid<T>{std::ldexp(T{1}, k), static_cast<T>(limit)});
  });
}

void CudaKernels::clamp(const Tensor& out, const Tensor& in, double limit) {
  if (is_narrow(out.dtype())) return host_->clamp(out, in, limit);
  for_float(in.dtype(), [&](auto tag) {
    using T = decltype(tag);
    map(out, in, Clamp<T>{static_cast<T>(limit)});
  });
}

void CudaKernels::gelu(const Tensor& out, const Tensor& in, Gelu form) {
  if (!functions_ || is_narrow(out.dtype())) return host_->gelu(out, in, form);
  for_float(in.dtype(),
            [&](auto tag) { map(out, in, GeluOf<decltype(tag)>{form == Gelu::kTanh}); });
}

void CudaKernels::gelu_backward(const Tensor& out, const Tensor& grad, const Tensor& x, Gelu form) {
  if (!functions_ || is_narrow(out.dtype())) return host_->gelu_backward(out, grad, x, form);
  const std::int64_t n = agreed_elems(out, grad, x);
  for_float(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    using Op = GeluSlope<T>;
    executor_->run(n, Zip<T, Op>{at<T>(out), at<T>(grad), at<T>(x), Op{form == Gelu::kTanh}});
  });
}

void CudaKernels::mse_backward(const Tensor& out,
                               const Tensor& grad_out,
                               const Tensor& x,
                               const Tensor& target,
                               double denominator) {
  if (is_narrow(out.dtype())) return host_->mse_backward(out, grad_out, x, target, denominator);
  const std::int64_t n = agreed_elems(out, x, target);
  for_float(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const T norm = static_cast<T>(2.0 / denominator);
    executor_->run(n, MseSlope<T>{at<T>(out), at<T>(grad_out), at<T>(x), at<T>(target), norm});
  });
}

void CudaKernels::l1_backward(const Tensor& out,
                              const Tensor& grad_out,
                              const Tensor& x,
                              const Tensor& target,
                              double denominator) {
  if (is_narrow(out.dtype())) return host_->l1_backward(out, grad_out, x, target, denominator);
  const std::int64_t n = agreed_elems(out, x, target);
  for_float(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const T by = static_cast<T>(denominator);
    executor_->run(n, L1Slope<T>{at<T>(out), at<T>(grad_out), at<T>(x), at<T>(target), by});
  });
}

}  // namespace lockstep::cuda
