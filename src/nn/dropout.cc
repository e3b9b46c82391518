#include "lockstep/nn/dropout.h"

#include "lockstep/autograd/functions.h"
#include "lockstep/random/discrete.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep::nn {

Dropout::Dropout(Runtime& runtime, double p, Generator& generator)
    : Module(runtime), p_(p), generator_(&generator) {
  LOCKSTEP_CHECK(p >= 0.0 && p <= 1.0, "a probability lies between 0 and 1");
}

Variable Dropout::forward(const Variable& x) {
  if (!is_training() || p_ == 0.0 || x.data().n_elems() == 0) return x;
  const DType dtype = x.data().dtype();
  // PyTorch draws nothing for p = 1 either.
  if (p_ == 1.0) return mul(x, Variable(Tensor::zeros(runtime(), x.shape(), dtype)));
  const Tensor mask = Tensor::empty(runtime(), x.shape(), dtype);
  if (dtype == DType::kF32) {
    bernoulli(*generator_, mask.span<float>(), 1.0 - p_);
  } else {
    bernoulli(*generator_, mask.span<double>(), 1.0 - p_);
  }
  runtime().kernels().div_scalar(mask, mask, 1.0 - p_);
  return mul(x, Variable(mask));
}

}  // namespace lockstep::nn
