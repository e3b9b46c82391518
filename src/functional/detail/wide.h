// What 16-bit operations compute in where they are made of several kernels.
#pragma once

#include "lockstep/tensor/dtype.h"

namespace lockstep::detail {

/// f32 for 16-bit floats, else the dtype itself.
constexpr DType wide_dtype(DType dtype) { return is_narrow(dtype) ? DType::kF32 : dtype; }

}  // namespace lockstep::detail
