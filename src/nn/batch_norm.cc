#include "lockstep/nn/batch_norm.h"

#include "lockstep/autograd/functions.h"
#include "lockstep/nn/init.h"

namespace lockstep::nn {

BatchNorm1d::BatchNorm1d(Runtime& runtime, std::int64_t width, BatchNormOptions options)
    : Module(runtime), options_(options) {
  const Shape columns{width};
  const DType dtype = options.dtype;
  weight_ = register_parameter("weight", Tensor::full(runtime, columns, dtype, 1.0));
  bias_ = register_parameter("bias", Tensor::zeros(runtime, columns, dtype));
  running_mean_ = register_buffer("running_mean", Tensor::zeros(runtime, columns, dtype));
  running_var_ = register_buffer("running_var", Tensor::full(runtime, columns, dtype, 1.0));
  num_batches_tracked_ =
      register_buffer("num_batches_tracked", Tensor::zeros(runtime, {}, DType::kI64));
}

Variable BatchNorm1d::forward(const Variable& x) {
  const BatchNormBuffers buffers{.running_mean = running_mean_.data(),
                                 .running_var = running_var_.data()};
  if (is_training()) track_batch();
  return batch_norm(
      x,
      weight_,
      bias_,
      buffers,
      {.momentum = options_.momentum, .eps = options_.eps, .training = is_training()});
}

void BatchNorm1d::track_batch() const {
  *num_batches_tracked_.data().data<std::int64_t>() += 1;
  for (const Variable* buffer : {&running_mean_, &running_var_, &num_batches_tracked_}) {
    buffer->data().storage()->bump_version();
  }
}

void BatchNorm1d::reset_own_parameters(Generator& /*generator*/) {
  init::constant(weight_.data(), 1.0);
  init::constant(bias_.data(), 0.0);
  init::constant(running_mean_.data(), 0.0);
  init::constant(running_var_.data(), 1.0);
  init::constant(num_batches_tracked_.data(), 0.0);
}

}  // namespace lockstep::nn
