// Initial values of parameters: PyTorch's own draws, and exact ones for exact jobs.
#pragma once

#include <cstdint>
#include <span>

#include "lockstep/nn/module.h"
#include "lockstep/random/generator.h"

namespace lockstep::nn::init {

void constant(const Tensor& tensor, double value);

/// Row-major values, rounded to the tensor's dtype. Requires: one value per element.
void values(const Tensor& tensor, std::span<const double> values);

/// The multiples of 2^-bits in [-limit, limit] that grid() draws from.
struct Grid {
  int bits = 3;
  double limit = 1.0;
};

/// Fills with points of a dyadic grid, all equally likely up to the bias of a 32-bit remainder:
/// sums and products of few such numbers do not round.
///
/// Deterministic: one 32-bit draw per element, in memory order.
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

/// Inputs and outputs of one unit: of a matrix (O, I), or of a filter bank (O, I, kh, kw), whose
/// window counts for both.
struct Fan {
  std::int64_t in = 0;
  std::int64_t out = 0;
};

/// Requires: at least two dimensions.
Fan fan_of(const Shape& shape);

/// The factor by which an activation shrinks deviations, to be made up for by the weights.
double leaky_relu_gain(double slope);  ///< sqrt(2 / (1 + slope^2)); slope 0 is ReLU's.

enum class FanMode : std::uint8_t { kIn, kOut };

/// Which variance Kaiming initialization keeps.
struct Kaiming {
  double gain = 1.4142135623730951;  ///< ReLU's.
  FanMode mode = FanMode::kIn;
};

/// All fill a tensor of f32 or f64 in memory order; tensors without elements draw nothing.
///
/// Deterministic: bounds are formed in double, in PyTorch's order of operations, and rounded once.
/// Source: torch/nn/init.py of 1.13; He et al., ICCV 2015 (kaiming); Glorot and Bengio, AISTATS
///     2010 (xavier).
void normal(const Tensor& tensor, Generator& generator, double mean = 0.0, double std = 1.0);
void kaiming_uniform(const Tensor& tensor, Generator& generator, Kaiming options = {});
void kaiming_normal(const Tensor& tensor, Generator& generator, Kaiming options = {});
void xavier_uniform(const Tensor& tensor, Generator& generator, double gain = 1.0);
void xavier_normal(const Tensor& tensor, Generator& generator, double gain = 1.0);

/// A normal distribution, and where it is cut off.
struct TruncatedNormal {
  double mean = 0.0;
  double std = 1.0;
  double from = -2.0;
  double to = 2.0;
};

/// A normal distribution without its tails outside [from, to], by inversion: uniform draws through
/// the inverse error function. Calls log, exp and erf of the C library.
void trunc_normal(const Tensor& tensor, Generator& generator, TruncatedNormal shape = {});

/// What PyTorch gives the weight of a Linear or a convolution: kaiming_uniform(gain of slope
/// sqrt(5)).
void layer_weight(const Tensor& weight, Generator& generator);

}  // namespace lockstep::nn::init
