#include "lockstep/nn/batch_norm.h"

#include <fmt/core.h>

#include "lockstep/functional/functions.h"
#include "lockstep/nn/init.h"

namespace lockstep::nn {

BatchNorm::BatchNorm(Runtime& runtime,
                     std::int64_t width,
                     std::size_t n_dims,
                     BatchNormOptions options)
    : Module(runtime), options_(options), n_dims_(n_dims) {
  const Shape columns{width};
  const DType dtype = options.dtype;
  if (options.affine) {
    weight_ = register_parameter("weight", Tensor::full(runtime, columns, dtype, 1.0));
    bias_ = register_parameter("bias", Tensor::zeros(runtime, columns, dtype));
  }
  if (!options.track_running_stats) return;
  running_mean_ = register_buffer("running_mean", Tensor::zeros(runtime, columns, dtype));
  running_var_ = register_buffer("running_var", Tensor::full(runtime, columns, dtype, 1.0));
  num_batches_tracked_ =
      register_buffer("num_batches_tracked", Tensor::zeros(runtime, {}, DType::kI64));
}

Variable BatchNorm::forward(const Variable& x) {
  LOCKSTEP_CHECK(
      x.shape().n_dims() == n_dims_,
      fmt::format("this batch norm takes {} dimensions, not {}", n_dims_, x.shape().text()));
  Kernels::BatchNorm batch{.momentum = options_.momentum.value_or(0.0),
                           .eps = options_.eps,
                           .training = is_training() || !options_.track_running_stats};
  BatchNormBuffers buffers;
  if (options_.track_running_stats) {
    buffers = {.running_mean = running_mean_.data(), .running_var = running_var_.data()};
    if (is_training()) batch.momentum = track_batch();
  }
  return batch_norm(x, weight_, bias_, buffers, batch);
}

/// Counts the batch. Returns: its weight in the running statistics.
double BatchNorm::track_batch() const {
  std::int64_t& n_batches = *num_batches_tracked_.data().write<std::int64_t>();
  n_batches += 1;
  for (const Variable* buffer : {&running_mean_, &running_var_, &num_batches_tracked_}) {
    buffer->data().storage()->bump_version();
  }
  return options_.momentum.value_or(1.0 / static_cast<double>(n_batches));
}

void BatchNorm::reset_own_parameters(Generator& /*generator*/) {
  if (options_.affine) {
    init::constant(weight_.data(), 1.0);
    init::constant(bias_.data(), 0.0);
  }
  if (!options_.track_running_stats) return;
  init::constant(running_mean_.data(), 0.0);
  init::constant(running_var_.data(), 1.0);
  init::constant(num_batches_tracked_.data(), 0.0);
}

std::string BatchNorm::description() const {
  const std::string momentum = options_.momentum ? fmt::format("{}", *options_.momentum) : "none";
  return fmt::format(
      "BatchNorm{}d(eps={}, momentum={})", n_dims_ == 2 ? 1 : 2, options_.eps, momentum);
}

}  // namespace lockstep::nn
