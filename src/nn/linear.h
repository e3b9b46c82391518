#pragma once

#include <cstdint>

#include "lockstep/nn/module.h"

namespace lockstep::nn {

/// PyTorch's arguments, by their names.
struct LinearOptions {
  bool bias = true;
  DType dtype = DType::kF32;
};

/// x (B, I) -> x times weight transposed, plus bias: (B, O). Parameters "weight" (O, I), "bias"
/// (O,).
///
/// Without a generator all parameters are zero, for an initialiser of init.h to fill.
///
/// Source: torch.nn.Linear; initial values are bit-equal to 1.13 under the same seed.
class Linear final : public Module {
 public:
  Linear(Runtime& runtime, std::int64_t in, std::int64_t out, LinearOptions options = {});
  Linear(Runtime& runtime,
         std::int64_t in,
         std::int64_t out,
         Generator& generator,
         LinearOptions options = {});

  Variable forward(const Variable& x) override;

  const Variable& weight() const { return weight_; }

  const Variable& bias() const { return bias_; }  ///< Undefined when there is none.

 private:
  void reset_own_parameters(Generator& generator) override;

  Variable weight_;
  Variable bias_;
};

}  // namespace lockstep::nn
