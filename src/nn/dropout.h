#pragma once

#include "lockstep/nn/module.h"

namespace lockstep::nn {

/// Zeroes each element with probability `p` while training and divides the others by 1 - p; the
/// identity in evaluation and for p = 0, which draw nothing.
///
/// Requires:      0 <= p <= 1; the generator outlives this module.
/// Deterministic: masks are bit-equal to PyTorch's on the CPU (random/discrete.h).
/// Source:        torch.nn.Dropout.
class Dropout final : public Module {
 public:
  Dropout(Runtime& runtime, double p, Generator& generator);

  Variable forward(const Variable& x) override;

 private:
  double p_;
  Generator* generator_;
};

}  // namespace lockstep::nn
