#include "lockstep/nn/init.h"

#include <array>
#include <cmath>
#include <fmt/core.h>
#include <string>

#include "lockstep/random/uniform.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep::nn::init {

void constant(const Tensor& tensor, double value) {
  tensor.runtime().kernels().fill(tensor, value);
}

void values(const Tensor& tensor, std::span<const double> values) {
  Runtime& runtime = tensor.runtime();
  runtime.kernels().copy(tensor, Tensor::of(runtime, tensor.shape(), tensor.dtype(), values));
}

void grid(const Tensor& tensor, Generator& generator, Grid grid) {
  const double step = std::ldexp(1.0, -grid.bits);
  const auto largest = static_cast<std::int64_t>(std::floor(grid.limit / step));
  LOCKSTEP_CHECK(largest >= 0 && largest < (std::int64_t{1} << 31),
                 fmt::format("a grid of -{0} .. {0} has not between one and 2^32 points", largest));
  const auto n_points = static_cast<std::uint64_t>(2 * largest + 1);
  std::vector<double> points(static_cast<std::size_t>(tensor.n_elems()));
  for (double& point : points) {
    const auto index = static_cast<std::int64_t>(generator.random() % n_points);
    point = static_cast<double>(index - largest) * step;
  }
  values(tensor, points);
}

namespace {

/// As PyTorch 2 draws 16-bit numbers: an f32 each, rounded; one that reaches the upper bound becomes the
/// lower one.
void uniform16(const Tensor& tensor, Generator& generator, UniformRange range) {
  Runtime& runtime = tensor.runtime();
  const Tensor drawn = Tensor::empty(runtime, tensor.shape(), DType::kF32);
  lockstep::uniform(generator, drawn.write_span<float>(), range);
  const std::array ends{range.from, range.to};
  const Tensor bounds = Tensor::of(runtime, {2}, DType::kF32, ends).to(tensor.dtype());
  const Tensor rounded = drawn.to(tensor.dtype()).to(DType::kF32);
  for (float& value : rounded.write_span<float>()) {
    if (value >= static_cast<float>(bounds.at(1))) value = static_cast<float>(bounds.at(0));
  }
  runtime.kernels().copy(tensor, rounded);
}

}  // namespace

void uniform(const Tensor& tensor, Generator& generator, double bound) {
  const UniformRange range{.from = -bound, .to = bound};
  if (is_narrow(tensor.dtype())) {
    return uniform16(tensor, generator, range);
  }
  if (tensor.dtype() == DType::kF32) {
    lockstep::uniform(generator, tensor.write_span<float>(), range);
  } else {
    lockstep::uniform(generator, tensor.write_span<double>(), range);
  }
}

// Each bound is computed as PyTorch writes it: the two formulas agree on paper, not in every bit.
void linear_weight(const Tensor& weight, Generator& generator) {
  LOCKSTEP_CHECK(weight.shape().n_dims() == 2,
                 fmt::format("a linear weight has shape (O, I), not {}", weight.shape().text()));
  if (weight.n_elems() == 0) return;
  const double slope = std::sqrt(5.0);
  const double gain = std::sqrt(2.0 / (1.0 + slope * slope));
  const double deviation = gain / std::sqrt(static_cast<double>(weight.size(1)));
  uniform(weight, generator, std::sqrt(3.0) * deviation);
}

void linear_bias(const Tensor& bias, Generator& generator, std::int64_t fan_in) {
  uniform(bias, generator, fan_in > 0 ? 1.0 / std::sqrt(static_cast<double>(fan_in)) : 0.0);
}

void constant(const Module& module, double value) {
  for (const Variable& parameter : module.parameters()) constant(parameter.data(), value);
}

void grid(const Module& module, Generator& generator, Grid points) {
  for (const Variable& parameter : module.parameters()) {
    grid(parameter.data(), generator, points);
  }
}

void values(const Module& module, std::span<const double> all) {
  std::size_t n_used = 0;
  for (const Variable& parameter : module.parameters()) {
    const auto n = static_cast<std::size_t>(parameter.data().n_elems());
    LOCKSTEP_CHECK(
        n <= all.size() - n_used,
        fmt::format("the model has more elements than the {} values that were given", all.size()));
    values(parameter.data(), all.subspan(n_used, n));
    n_used += n;
  }
  LOCKSTEP_CHECK(
      n_used == all.size(),
      fmt::format("the model has {} elements, {} values were given", n_used, all.size()));
}

}  // namespace lockstep::nn::init
