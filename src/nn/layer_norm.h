#pragma once

#include <cstdint>
#include <string>

#include "lockstep/nn/module.h"

namespace lockstep::nn {

/// PyTorch's arguments, by their names.
struct LayerNormOptions {
  double eps = 1e-5;
  DType dtype = DType::kF32;
};

/// Normalises each row of x (R, D). Parameters "weight" (ones), "bias" (zeros).
///
/// Source: Ba, Kiros and Hinton, "Layer Normalization", 2016; torch.nn.LayerNorm.
class LayerNorm final : public Module {
 public:
  LayerNorm(Runtime& runtime, std::int64_t width, LayerNormOptions options = {});

  Variable forward(const Variable& x) override;

 private:
  std::string description() const override;
  void reset_own_parameters(Generator& generator) override;  // Draws nothing, as in PyTorch.

  LayerNormOptions options_;
  Variable weight_;
  Variable bias_;
};

}  // namespace lockstep::nn
