#pragma once

#include <cstdint>
#include <string>

#include "lockstep/nn/module.h"

namespace lockstep::nn {

/// PyTorch's arguments, by their names.
struct Conv2dOptions {
  std::int64_t kernel = 3;        ///< Height of the filters.
  std::int64_t kernel_width = 0;  ///< 0: as wide as high.
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  bool bias = true;
  DType dtype = DType::kF32;
};

/// Filters slid over images: x (N, C, H, W) -> (N, O, H', W'). Parameters "weight" (O, C, kh, kw),
/// "bias" (O,).
///
/// Without a generator all parameters are zero, for an initialiser of init.h to fill.
///
/// Source: torch.nn.Conv2d with one group and no dilation; initial values are bit-equal to 1.13
///     under the same seed.
class Conv2d final : public Module {
 public:
  Conv2d(Runtime& runtime, std::int64_t in, std::int64_t out, Conv2dOptions options = {});
  Conv2d(Runtime& runtime,
         std::int64_t in,
         std::int64_t out,
         Generator& generator,
         Conv2dOptions options = {});

  Variable forward(const Variable& x) override;

  const Variable& weight() const { return weight_; }

  const Variable& bias() const { return bias_; }  ///< Undefined when there is none.

 private:
  std::string description() const override;
  void reset_own_parameters(Generator& generator) override;

  Conv2dOptions options_;
  Variable weight_;
  Variable bias_;
};

}  // namespace lockstep::nn
