// Generators as tensors, for what stores named tensors.
#pragma once

#include "lockstep/random/generator.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

/// Shapes: u8[n], the bytes of torch.Generator.get_state().
Tensor state_of(const Generator& generator, Runtime& runtime);

/// Continues from what state_of() returned. Errors: std::invalid_argument for anything else.
void load_state(Generator& generator, const Tensor& state);

}  // namespace lockstep
