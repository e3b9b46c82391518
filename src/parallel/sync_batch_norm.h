// Batch normalisation with statistics of the whole batch, however it is spread over ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lockstep/comm/process_group.h"
#include "lockstep/functional/functions.h"
#include "lockstep/nn/batch_norm.h"

namespace lockstep {

/// As batch_norm in training, over the batches of all ranks of `group`. Collective, forward and
/// backward.
///
/// Forward: AG of {mean (C,), invstd (C,), count}, merged in ascending rank order; a rank with an
/// empty batch contributes zeros, which are left out. Backward: AR of {sum of dy (C,), sum of
/// dy (x - mean) (C,)}, on ranks whose x requires a gradient: they must agree. The gradients of
/// weight and bias stay local; a rank with an empty batch gives them none.
///
/// Shapes: x (B, C) or (B, C, ...), B >= 0; weight and bias (C,) or undefined.
/// Errors: std::invalid_argument with PyTorch's text; CommError when a collective fails.
/// Deterministic: the same statistics on every rank. Equal to batch_norm over the concatenated
///     batch where nothing rounds.
/// Source: torch/nn/modules/_functions.py, SyncBatchNorm.
Variable sync_batch_norm(const Variable& x,
                         const Variable& weight,
                         const Variable& bias,
                         const BatchNormBuffers& buffers,
                         const Kernels::BatchNorm& options,
                         ProcessGroup& group);

namespace nn {

/// BatchNorm1d and 2d in one, synchronised over `group` in training if that has more than one rank.
/// The group need not be the one gradients are averaged over.
///
/// Parameters and buffers as BatchNorm.
///
/// Source: torch.nn.SyncBatchNorm, which takes tensors on GPUs alone; this one takes all.
class SyncBatchNorm final : public Module {
 public:
  /// Requires: the group outlives the module.
  SyncBatchNorm(Runtime& runtime,
                std::int64_t width,
                ProcessGroup& group,
                BatchNormOptions options = {});
  /// Takes the place of `layer`: its options, and the memory of its parameters and buffers.
  SyncBatchNorm(const BatchNorm& layer, ProcessGroup& group);

  Variable forward(const Variable& x) override;

  const BatchNormOptions& options() const { return options_; }

 private:
  std::string description() const override { return "SyncBatchNorm()"; }

  double track_batch() const;
  void reset_own_parameters(Generator& generator) override;  // Draws nothing, as in PyTorch.

  ProcessGroup* group_;
  BatchNormOptions options_;
  Variable weight_;
  Variable bias_;
  Variable running_mean_;
  Variable running_var_;
  Variable num_batches_tracked_;
};

/// `layer` as a module to put in its place: BatchNorm becomes SyncBatchNorm with the same
/// parameters, everything else is null. Models own their modules as members, so that a tree cannot
/// be rebuilt from outside: a model that may be either asks here where it builds its layers.
///
/// Source: torch.nn.SyncBatchNorm.convert_sync_batchnorm.
std::unique_ptr<Module> convert_sync_batchnorm(const Module& layer, ProcessGroup& group);

}  // namespace nn
}  // namespace lockstep
