#include "lockstep/parallel/sync_batch_norm.h"

#include <string_view>

#include "lockstep/nn/init.h"

namespace lockstep::nn {

namespace {

Tensor tensor_named(std::span<const NamedVariable> variables, std::string_view name) {
  for (const NamedVariable& entry : variables) {
    if (entry.name == name) return entry.variable.data();
  }
  return {};
}

Variable variable_named(std::span<const NamedVariable> variables, std::string_view name) {
  for (const NamedVariable& entry : variables) {
    if (entry.name == name) return entry.variable;
  }
  return {};
}

}  // namespace

SyncBatchNorm::SyncBatchNorm(Runtime& runtime,
                             std::int64_t width,
                             ProcessGroup& group,
                             BatchNormOptions options)
    : Module(runtime), group_(&group), options_(options) {
  const Shape columns{width};
  if (options.affine) {
    weight_ = register_parameter("weight", Tensor::full(runtime, columns, options.dtype, 1.0));
    bias_ = register_parameter("bias", Tensor::zeros(runtime, columns, options.dtype));
  }
  if (!options.track_running_stats) return;
  running_mean_ = register_buffer("running_mean", Tensor::zeros(runtime, columns, options.dtype));
  running_var_ = register_buffer("running_var", Tensor::full(runtime, columns, options.dtype, 1.0));
  num_batches_tracked_ =
      register_buffer("num_batches_tracked", Tensor::zeros(runtime, {}, DType::kI64));
}

SyncBatchNorm::SyncBatchNorm(const BatchNorm& layer, ProcessGroup& group)
    : Module(layer.runtime()), group_(&group), options_(layer.options()) {
  const std::vector<NamedVariable> parameters = layer.named_parameters();
  if (options_.affine) {
    weight_ = register_parameter("weight", variable_named(parameters, "weight"));
    bias_ = register_parameter("bias", variable_named(parameters, "bias"));
  }
  if (options_.track_running_stats) {
    const std::vector<NamedVariable> buffers = layer.named_buffers();
    running_mean_ = register_buffer("running_mean", tensor_named(buffers, "running_mean"));
    running_var_ = register_buffer("running_var", tensor_named(buffers, "running_var"));
    num_batches_tracked_ =
        register_buffer("num_batches_tracked", tensor_named(buffers, "num_batches_tracked"));
  }
  train(layer.is_training());
}

Variable SyncBatchNorm::forward(const Variable& x) {
  Kernels::BatchNorm batch{.momentum = options_.momentum.value_or(0.0),
                           .eps = options_.eps,
                           .training = is_training() || !options_.track_running_stats};
  BatchNormBuffers buffers;
  if (options_.track_running_stats) {
    buffers = {.running_mean = running_mean_.data(), .running_var = running_var_.data()};
    if (is_training()) batch.momentum = track_batch();
  }
  if (is_training() && group_->size() > 1) {
    return sync_batch_norm(x, weight_, bias_, buffers, batch, *group_);
  }
  return batch_norm(x, weight_, bias_, buffers, batch);
}

double SyncBatchNorm::track_batch() const {
  std::int64_t& n_batches = *num_batches_tracked_.data().write<std::int64_t>();
  n_batches += 1;
  for (const Variable* buffer : {&running_mean_, &running_var_, &num_batches_tracked_}) {
    buffer->data().storage()->bump_version();
  }
  return options_.momentum.value_or(1.0 / static_cast<double>(n_batches));
}

void SyncBatchNorm::reset_own_parameters(Generator& /*generator*/) {
  if (options_.affine) {
    init::constant(weight_.data(), 1.0);
    init::constant(bias_.data(), 0.0);
  }
  if (!options_.track_running_stats) return;
  init::constant(running_mean_.data(), 0.0);
  init::constant(running_var_.data(), 1.0);
  init::constant(num_batches_tracked_.data(), 0.0);
}

std::unique_ptr<Module> convert_sync_batchnorm(const Module& layer, ProcessGroup& group) {
  const auto* batch_norm = dynamic_cast<const BatchNorm*>(&layer);
  if (batch_norm == nullptr) return nullptr;
  return std::make_unique<SyncBatchNorm>(*batch_norm, group);
}

}  // namespace lockstep::nn
