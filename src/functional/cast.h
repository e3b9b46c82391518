// Changing a variable's dtype inside the graph.
#pragma once

#include "lockstep/autograd/variable.h"

namespace lockstep {

/// x with its elements converted to `dtype`; its gradient is converted back. `x` itself when it has
/// that dtype already. 16-bit floats are storage: what no kernel computes in them is computed on a
/// cast to f32.
///
/// Requires: both dtypes floating.
/// Source: torch.Tensor.to.
Variable cast(const Variable& x, DType dtype);

}  // namespace lockstep
