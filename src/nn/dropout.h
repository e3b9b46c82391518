#pragma once

#include <string>

#include "lockstep/nn/module.h"
#include "lockstep/trace/stream_record.h"

namespace lockstep::nn {

/// What a dropout multiplies by: 0 with probability `p`, else 1 / (1 - p). Nothing is drawn for an
/// empty shape, nor for p = 1, as in PyTorch.
/// Requires: 0 < p <= 1; f32 or f64.
Tensor dropout_mask(
    Runtime& runtime, const Shape& shape, DType dtype, double p, Generator& generator);

/// Zeroes each element with probability `p` while training and divides the others by 1 - p; the
/// identity in evaluation and for p = 0, which draw nothing.
///
/// The generator is recorded before the first mask of an epoch, as the private stream "dropout".
///
/// Requires: 0 <= p <= 1; the generator outlives this module.
/// Deterministic: masks are bit-equal to PyTorch's on the CPU (random/discrete.h).
/// Source: torch.nn.Dropout.
class Dropout final : public Module {
 public:
  Dropout(Runtime& runtime, double p, Generator& generator);

  Variable forward(const Variable& x) override;

 private:
  std::string description() const override;

  double p_;
  Generator* generator_;
  StreamRecord stream_{"dropout"};
};

}  // namespace lockstep::nn
