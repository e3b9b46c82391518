// Initial values of parameters: PyTorch's own draws, and exact ones for exact jobs.
#pragma once

#include <cstdint>
#include <span>

#include "lockstep/nn/module.h"
#include "lockstep/random/generator.h"

namespace lockstep::nn::init {

void constant(const Tensor& tensor, double value);

/// Row-major values, rounded to the tensor's dtype. Requires: one value an element.
void values(const Tensor& tensor, std::span<const double> values);

/// The multiples of 2^-bits in [-limit, limit] that grid() draws from.
struct Grid {
  int bits = 3;
  double limit = 1.0;
};

/// Fills with points of a dyadic grid, all equally likely up to the bias of a 32-bit remainder:
/// sums and products of few such numbers do not round.
///
/// Deterministic: one 32-bit draw an element, in memory order.
void grid(const Tensor& tensor, Generator& generator, Grid grid = {});

/// Uniform in [-bound, bound]. Requires: f32 or f64. Bits: random/uniform.h.
void uniform(const Tensor& tensor, Generator& generator, double bound);

/// What PyTorch gives a Linear's weight (O, I): kaiming_uniform_(a = sqrt(5)). Bit-equal to 1.13.
void linear_weight(const Tensor& weight, Generator& generator);
/// What PyTorch gives the bias of a Linear with `fan_in` inputs: uniform in +-1/sqrt(fan_in).
void linear_bias(const Tensor& bias, Generator& generator, std::int64_t fan_in);

/// The same for all parameters of a model, in order: shared ones once, buffers untouched.
void constant(const Module& module, double value);
void grid(const Module& module, Generator& generator, Grid points = {});
/// All parameters' elements, one parameter after the other. Requires: exactly as many values.
void values(const Module& module, std::span<const double> all);

}  // namespace lockstep::nn::init
