#include "lockstep/nn/dropout.h"

#include <fmt/core.h>

#include "lockstep/functional/functions.h"
#include "lockstep/random/discrete.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep::nn {

Tensor dropout_mask(
    Runtime& runtime, const Shape& shape, DType dtype, double p, Generator& generator) {
  if (p == 1.0) return Tensor::zeros(runtime, shape, dtype);
  Tensor mask = Tensor::empty(runtime, shape, dtype);
  if (mask.n_elems() == 0) return mask;
  if (dtype == DType::kF64) {
    bernoulli(generator, mask.write_span<double>(), 1.0 - p);
  } else {  // 16-bit masks are drawn as f32 ones are: zeros and ones.
    const Tensor drawn = Tensor::empty(runtime, shape, DType::kF32);
    bernoulli(generator, (dtype == DType::kF32 ? mask : drawn).write_span<float>(), 1.0 - p);
    if (dtype != DType::kF32) runtime.kernels().copy(mask, drawn);
  }
  runtime.kernels().div_scalar(mask, mask, 1.0 - p);
  return mask;
}

Dropout::Dropout(Runtime& runtime, double p, Generator& generator)
    : Module(runtime), p_(p), generator_(&generator) {
  LOCKSTEP_CHECK(p >= 0.0 && p <= 1.0,
                 fmt::format("a dropout probability must be between 0 and 1, not {}", p));
}

std::string Dropout::description() const { return fmt::format("Dropout(p={})", p_); }

Variable Dropout::forward(const Variable& x) {
  if (!is_training() || p_ == 0.0 || x.data().n_elems() == 0) return x;
  stream_.before_draw(runtime().recorder(), *generator_);
  return mul(x, Variable(dropout_mask(runtime(), x.shape(), x.data().dtype(), p_, *generator_)));
}

}  // namespace lockstep::nn
