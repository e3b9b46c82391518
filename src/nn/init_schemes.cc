#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/core.h>
#include <numbers>

#include "lockstep/nn/init.h"
#include "lockstep/random/normal.h"
#include "lockstep/random/uniform.h"

namespace lockstep::nn::init {
namespace {

double kaiming_deviation(const Tensor& tensor, Kaiming options) {
  const Fan fan = fan_of(tensor.shape());
  const std::int64_t n = options.mode == FanMode::kIn ? fan.in : fan.out;
  return options.gain / std::sqrt(static_cast<double>(n));
}

double xavier_deviation(const Tensor& tensor, double gain) {
  const Fan fan = fan_of(tensor.shape());
  return gain * std::sqrt(2.0 / static_cast<double>(fan.in + fan.out));
}

// c[n-1] * z^(n-1) + ... + c[0] by Horner's rule, fused as in PyTorch's AVX2 build.
template <typename T, std::size_t kTerms>
T polynomial(const std::array<double, kTerms>& c, T z) {
  T sum = static_cast<T>(c[kTerms - 1]);
  for (std::size_t i = kTerms - 1; i-- > 0;) sum = std::fma(sum, z, static_cast<T>(c[i]));
  return sum;
}

// A rational first guess and two steps of Newton's method. Source: ATen/native/Math.h.
template <typename T>
T inverse_erf(T y) {
  constexpr std::array kA{0.886226899, -1.645349621, 0.914624893, -0.140543331};
  constexpr std::array kB{1.0, -2.118377725, 1.442710462, -0.329097515, 0.012229801};
  constexpr std::array kC{-1.970840454, -1.624906493, 3.429567803, 1.641345311};
  constexpr std::array kD{1.0, 3.543889200, 1.637067800};
  constexpr double kCentralRange = 0.7;
  T x{0};
  if (std::fabs(y) <= static_cast<T>(kCentralRange)) {
    const T z = y * y;
    x = y * polynomial(kA, z) / polynomial(kB, z);
  } else {
    const T z = std::sqrt(-std::log((T{1} - std::fabs(y)) / T{2}));
    x = std::copysign(polynomial(kC, z), y) / polynomial(kD, z);
  }
  const T slope = T{2} / static_cast<T>(std::sqrt(std::numbers::pi));
  for (int step = 0; step < 2; ++step) x = x - (std::erf(x) - y) / (slope * std::exp(-x * x));
  return x;
}

template <typename T>
void fill_truncated(std::span<T> out, Generator& generator, const TruncatedNormal& shape) {
  const auto cdf = [](double x) { return (1.0 + std::erf(x / std::sqrt(2.0))) / 2.0; };
  const double low = cdf((shape.from - shape.mean) / shape.std);
  const double high = cdf((shape.to - shape.mean) / shape.std);
  lockstep::uniform(generator, out, {.from = 2.0 * low - 1.0, .to = 2.0 * high - 1.0});
  const T factor = static_cast<T>(shape.std * std::sqrt(2.0));
  const T mean = static_cast<T>(shape.mean);
  for (T& value : out) {
    value = std::clamp(
        inverse_erf(value) * factor + mean, static_cast<T>(shape.from), static_cast<T>(shape.to));
  }
}

}  // namespace

Fan fan_of(const Shape& shape) {
  LOCKSTEP_CHECK(shape.n_dims() >= 2, "a fan needs (O, I, ...), not " + shape.text());
  std::int64_t window = 1;
  for (const std::int64_t size : shape.sizes().subspan(2)) window *= size;
  return {.in = shape[1] * window, .out = shape[0] * window};
}

double leaky_relu_gain(double slope) { return std::sqrt(2.0 / (1.0 + slope * slope)); }

void normal(const Tensor& tensor, Generator& generator, double mean, double std) {
  const NormalShape shape{.mean = mean, .std = std};
  LOCKSTEP_CHECK(
      tensor.dtype() == DType::kF32 || tensor.dtype() == DType::kF64,
      fmt::format("normal numbers are drawn in f32 or f64, not in {}: draw them there and "
                  "convert them",
                  name_of(tensor.dtype())));
  if (tensor.dtype() == DType::kF32) {
    lockstep::normal(generator, tensor.write_span<float>(), shape);
  } else {
    lockstep::normal(generator, tensor.write_span<double>(), shape);
  }
}

void kaiming_uniform(const Tensor& tensor, Generator& generator, Kaiming options) {
  if (tensor.n_elems() == 0) return;
  uniform(tensor, generator, std::sqrt(3.0) * kaiming_deviation(tensor, options));
}

void kaiming_normal(const Tensor& tensor, Generator& generator, Kaiming options) {
  if (tensor.n_elems() == 0) return;
  normal(tensor, generator, 0.0, kaiming_deviation(tensor, options));
}

void xavier_uniform(const Tensor& tensor, Generator& generator, double gain) {
  if (tensor.n_elems() == 0) return;
  uniform(tensor, generator, std::sqrt(3.0) * xavier_deviation(tensor, gain));
}

void xavier_normal(const Tensor& tensor, Generator& generator, double gain) {
  if (tensor.n_elems() == 0) return;
  normal(tensor, generator, 0.0, xavier_deviation(tensor, gain));
}

void trunc_normal(const Tensor& tensor, Generator& generator, TruncatedNormal shape) {
  LOCKSTEP_CHECK(shape.std > 0.0 && shape.from <= shape.to,
                 fmt::format("a truncated normal has a positive deviation and ordered ends, not "
                             "deviation {} from {} to {}",
                             shape.std,
                             shape.from,
                             shape.to));
  if (tensor.dtype() == DType::kF32) {
    fill_truncated(tensor.write_span<float>(), generator, shape);
  } else {
    fill_truncated(tensor.write_span<double>(), generator, shape);
  }
}

void layer_weight(const Tensor& weight, Generator& generator) {
  kaiming_uniform(weight, generator, {.gain = leaky_relu_gain(std::sqrt(5.0))});
}

}  // namespace lockstep::nn::init
