#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/nn/module.h"

namespace lockstep::nn {

/// PyTorch's arguments, by their names.
struct BatchNormOptions {
  double eps = 1e-5;
  /// Weight of the newest batch in the running statistics; none: the average over all batches.
  std::optional<double> momentum = 0.1;
  bool affine = true;
  bool track_running_stats = true;  ///< False: the batch's own statistics, in evaluation too.
  DType dtype = DType::kF32;
};

/// Normalises each column of x (B, D), or each channel of x (B, D, H, W). Parameters, if affine:
/// "weight" (ones), "bias" (zeros); buffers, if it tracks: "running_mean" (zeros), "running_var"
/// (ones) and "num_batches_tracked" (i64 scalar), all written in place by training forwards.
class BatchNorm : public Module {
 public:
  Variable forward(const Variable& x) override;

  const BatchNormOptions& options() const { return options_; }

 protected:
  BatchNorm(Runtime& runtime, std::int64_t width, std::size_t n_dims, BatchNormOptions options);

 private:
  std::string description() const override;
  double track_batch() const;
  void reset_own_parameters(Generator& generator) override;  // Draws nothing, as in PyTorch.

  BatchNormOptions options_;
  std::size_t n_dims_;
  Variable weight_;
  Variable bias_;
  Variable running_mean_;
  Variable running_var_;
  Variable num_batches_tracked_;
};

/// x (B, D). Source: torch.nn.BatchNorm1d.
class BatchNorm1d final : public BatchNorm {
 public:
  BatchNorm1d(Runtime& runtime, std::int64_t width, BatchNormOptions options = {})
      : BatchNorm(runtime, width, 2, options) {}
};

/// x (B, D, H, W). Source: torch.nn.BatchNorm2d.
class BatchNorm2d final : public BatchNorm {
 public:
  BatchNorm2d(Runtime& runtime, std::int64_t width, BatchNormOptions options = {})
      : BatchNorm(runtime, width, 4, options) {}
};

}  // namespace lockstep::nn
