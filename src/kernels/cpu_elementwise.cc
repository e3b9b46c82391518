#include <cmath>
#include <cstring>
#include <fmt/core.h>

#include "lockstep/kernels/detail/cpu.h"
#include "lockstep/kernels/detail/elements.h"
#include "lockstep/tensor/detail/dispatch.h"

namespace lockstep::detail {

namespace {

/// Whether a copy would change nothing. Looked at where a name would be lost that may have cost
/// more: a lone rank's average is its gradient.
bool is_there_already(const Tensor& out, const Tensor& in) {
  const std::uint64_t content = out.storage()->content();
  return content != 0 && Storage::is_named(content) &&
         std::memcmp(out.read_raw(), in.read_raw(), static_cast<std::size_t>(out.n_bytes())) == 0;
}

/// A copy has the name of what it is a copy of, if it is all that its storage holds.
void name_copy(const Tensor& out, const Tensor& in) {
  const Storage& from = *in.storage();
  Storage& to = *out.storage();
  const bool named = from.content() != 0 && Storage::is_named(from.content());
  if (!named || &from == &to || out.n_bytes() != to.n_bytes()) return;
  to.set_content(from.content(), from.content_offset() + in.offset_bytes());
}

/// out[i] = f(in[i]) in the tensors' dtype; 16-bit floats compute in f32 and round once.
template <typename F>
void map(const Tensor& out, const Tensor& in, F f) {
  const std::int64_t n = agreed_elems(out, in);
  for_real(out.dtype(), [&](auto tag) {
    using T = decltype(tag);
    T* const o = out.write<T>();
    const T* const x = in.read<T>();
    each(n, [=](std::int64_t i) { o[i] = rounded<T>(f(load(x[i]))); });
  });
}

/// out[i] = f(a[i], b[i]) for elements of T.
template <typename T, typename F>
void zip_as(const Tensor& out, const Tensor& a, const Tensor& b, F f) {
  const std::int64_t n = agreed_elems(out, a, b);
  T* const o = out.write<T>();
  const T* const x = a.read<T>();
  const T* const y = b.read<T>();
  each(n, [=](std::int64_t i) { o[i] = rounded<T>(f(load(x[i]), load(y[i]))); });
}

/// out[i] = f(a[i], b[i]) in the tensors' dtype; 16-bit floats compute in f32 and round once.
template <typename F>
void zip(const Tensor& out, const Tensor& a, const Tensor& b, F f) {
  for_real(out.dtype(), [&](auto tag) { zip_as<decltype(tag)>(out, a, b, f); });
}

}  // namespace

void CpuKernels::fill(const Tensor& out, double value) {
  for_any(out.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const T element = store<T>(value);
    T* const o = static_cast<T*>(out.write_raw());
    each(out.n_elems(), [=](std::int64_t i) { o[i] = element; });
  });
}

void CpuKernels::copy(const Tensor& out, const Tensor& in) {
  const std::int64_t n = agreed_elems(out, in);
  if (out.dtype() == in.dtype()) {
    if (n == 0 || is_there_already(out, in)) return;
    std::memmove(out.write_raw(), in.read_raw(), static_cast<std::size_t>(out.n_bytes()));
    name_copy(out, in);
    return;
  }
  for_any(out.dtype(), [&](auto out_tag) {
    for_any(in.dtype(), [&](auto in_tag) {
      using To = decltype(out_tag);
      using From = decltype(in_tag);
      To* const o = static_cast<To*>(out.write_raw());
      const From* const x = static_cast<const From*>(in.read_raw());
      each(n, [=](std::int64_t i) { o[i] = store<To>(load(x[i])); });
    });
  });
}

void CpuKernels::add(const Tensor& out, const Tensor& a, const Tensor& b) {
  const std::int64_t n = agreed_elems(out, a, b);
  LOCKSTEP_CHECK(
      a.dtype() == out.dtype() && b.dtype() == out.dtype(),
      fmt::format(
          "cannot add {} and {} into {}: a sum has one dtype", a.text(), b.text(), out.text()));
  for_real(out.dtype(), [&](auto tag) {
    using T = decltype(tag);  // 16-bit floats compute in f32 and round once.
    T* const o = static_cast<T*>(out.write_raw());
    const T* const x = static_cast<const T*>(a.read_raw());
    const T* const y = static_cast<const T*>(b.read_raw());
    each(n, [=](std::int64_t i) { o[i] = rounded<T>(load(x[i]) + load(y[i])); });
  });
}

void CpuKernels::sub(const Tensor& out, const Tensor& a, const Tensor& b) {
  zip(out, a, b, [](auto x, auto y) { return x - y; });
}

void CpuKernels::mul(const Tensor& out, const Tensor& a, const Tensor& b) {
  zip(out, a, b, [](auto x, auto y) { return x * y; });
}

void CpuKernels::div(const Tensor& out, const Tensor& a, const Tensor& b) {
  zip(out, a, b, [](auto x, auto y) { return x / y; });
}

void CpuKernels::scale(const Tensor& out, const Tensor& in, double factor) {
  map(out, in, [=](auto x) { return x * static_cast<decltype(x)>(factor); });
}

void CpuKernels::div_scalar(const Tensor& out, const Tensor& in, double divisor) {
  const std::int64_t n = agreed_elems(out, in);
  LOCKSTEP_CHECK(
      in.dtype() == out.dtype(),
      fmt::format("cannot divide {} into {}: both have one dtype", in.text(), out.text()));
  for_real(out.dtype(), [&](auto tag) {
    using T = decltype(tag);
    using Value = decltype(load(tag));
    const auto by = static_cast<Value>(divisor);
    T* const o = static_cast<T*>(out.write_raw());
    const T* const x = static_cast<const T*>(in.read_raw());
    each(n, [=](std::int64_t i) { o[i] = rounded<T>(load(x[i]) / by); });
  });
}

void CpuKernels::add_scaled(const Tensor& out, const Tensor& a, const Tensor& b, double alpha) {
  const std::int64_t n = agreed_elems(out, a, b);
  for_real(out.dtype(), [&](auto tag) {
    using T = decltype(tag);
    T* const o = out.write<T>();
    const T* const x = a.read<T>();
    const T* const y = b.read<T>();
    const ScaledAdd<T> sum(alpha);
    each_with_tail<T>(n, [=]<bool kInTail>(std::int64_t i) {
      o[i] = store<T>(sum.template of<kInTail>(load(x[i]), load(y[i])));
    });
  });
}

void CpuKernels::add_row(const Tensor& out, const Tensor& a, const Tensor& row) {
  const std::int64_t n = agreed_elems(out, a);
  const std::int64_t n_columns = row.n_elems();
  LOCKSTEP_CHECK(n_columns > 0 && n % n_columns == 0,
                 fmt::format("cannot add the row {} to every row of {}", row.text(), out.text()));
  for_real(out.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const T* const r = row.read<T>();
    const T* x = a.read<T>();
    T* o = out.write<T>();
    if (n_columns == 1) {  // One addend for all, not a loop of one turn for each.
      const Value<T> addend = load(*r);
      return each(n, [=](std::int64_t i) { o[i] = rounded<T>(load(x[i]) + addend); });
    }
    for (std::int64_t left = n; left > 0; left -= n_columns, x += n_columns, o += n_columns) {
      each(n_columns, [=](std::int64_t i) { o[i] = rounded<T>(load(x[i]) + load(r[i])); });
    }
  });
}

void CpuKernels::add_channels(const Tensor& out, const Tensor& a, const Tensor& channels) {
  const std::int64_t n = agreed_elems(out, a);
  const std::int64_t n_planes = out.size(0) * out.size(1);
  LOCKSTEP_CHECK(channels.n_elems() == out.size(1),
                 fmt::format("cannot add {} to the channels of {}: one number per channel",
                             channels.text(),
                             out.text()));
  if (n == 0) return;
  for_real(out.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const std::int64_t width = n / n_planes;
    for (std::int64_t plane = 0; plane < n_planes; ++plane) {
      T* const o = out.write<T>() + plane * width;
      const T* const x = a.read<T>() + plane * width;
      const Value<T> addend = load(channels.read<T>()[plane % channels.n_elems()]);
      each(width, [=](std::int64_t i) { o[i] = rounded<T>(load(x[i]) + addend); });
    }
  });
}

void CpuKernels::relu(const Tensor& out, const Tensor& in) {
  map(out, in, [](auto x) { return x < 0 ? decltype(x){0} : x; });
}

void CpuKernels::relu_backward(const Tensor& out, const Tensor& grad, const Tensor& y) {
  zip(out, grad, y, [](auto g, auto result) { return result <= 0 ? decltype(g){0} : g; });
}

void CpuKernels::tanh(const Tensor& out, const Tensor& in) {
  map(out, in, [](auto x) { return std::tanh(x); });
}

void CpuKernels::tanh_backward(const Tensor& out, const Tensor& grad, const Tensor& y) {
  zip(out, grad, y, [](auto g, auto t) { return g * std::fma(-t, t, decltype(t){1}); });
}

void CpuKernels::sigmoid(const Tensor& out, const Tensor& in) {
  map(out, in, [](auto x) { return decltype(x){1} / (decltype(x){1} + std::exp(-x)); });
}

void CpuKernels::sigmoid_backward(const Tensor& out, const Tensor& grad, const Tensor& y) {
  if (out.dtype() != DType::kF16) {
    zip(out, grad, y, [](auto g, auto s) { return g * (decltype(s){1} - s) * s; });
    return;
  }
  zip_as<Half>(
      out, grad, y, [](float g, float s) {  // PyTorch rounds each of the three in f16, alone.
        return settled<Half>(g * settled<Half>(1.0F - s)) * s;
      });
}

void CpuKernels::exp(const Tensor& out, const Tensor& in) {
  map(out, in, [](auto x) { return std::exp(x); });
}

void CpuKernels::log(const Tensor& out, const Tensor& in) {
  map(out, in, [](auto x) { return std::log(x); });
}

void CpuKernels::sqrt(const Tensor& out, const Tensor& in) {
  map(out, in, [](auto x) { return std::sqrt(x); });
}

void CpuKernels::round_to_grid(const Tensor& out, const Tensor& in, int k, double limit) {
  map(out, in, [=](auto x) {
    using T = decltype(x);
    const T steps = std::ldexp(T{1}, k);
    const T bound = static_cast<T>(limit);
    const T rounded = std::nearbyint(x * steps) / steps;
    const T below = rounded > bound ? bound : rounded;
    return below < -bound ? -bound : below;
  });
}

}  // namespace lockstep::detail
