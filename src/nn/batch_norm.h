#pragma once

#include <cstdint>

#include "lockstep/nn/module.h"

namespace lockstep::nn {

struct BatchNormOptions {
  double eps = 1e-5;
  double momentum = 0.1;  ///< Weight of the newest batch in the running statistics.
  DType dtype = DType::kF32;
};

/// Normalises the columns of x (B, D). Parameters "weight" (ones), "bias" (zeros); buffers
/// "running_mean" (zeros), "running_var" (ones) and "num_batches_tracked" (i64 scalar), all written
/// in place by training forwards.
///
/// Source: torch.nn.BatchNorm1d.
class BatchNorm1d final : public Module {
 public:
  BatchNorm1d(Runtime& runtime, std::int64_t width, BatchNormOptions options = {});

  Variable forward(const Variable& x) override;

 private:
  void track_batch() const;
  void reset_own_parameters(Generator& generator) override;  // Draws nothing, as in PyTorch.

  BatchNormOptions options_;
  Variable weight_;
  Variable bias_;
  Variable running_mean_;
  Variable running_var_;
  Variable num_batches_tracked_;
};

}  // namespace lockstep::nn
