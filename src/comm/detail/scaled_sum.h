// Products with a factor, alone and fused into a sum, in every floating-point element type.
#pragma once

#include <cstdint>

#include "lockstep/tensor/dtype.h"

namespace lockstep::detail {

/// `factor` as an element of `dtype` holds it. Narrow types round through f32, as NCCL does.
double rounded_factor(double factor, DType dtype);

/// out[i] := in[i] * factor, rounded once. Requires: a floating-point dtype, factor rounded to it.
void scale(void* out, const void* in, double factor, std::int64_t count, DType dtype);

/// out[i] := in[i] * factor + sum[i], rounded once. `out` may be `sum`.
/// Requires: a floating-point dtype, factor rounded to it.
void scale_and_add(
    void* out, const void* in, double factor, const void* sum, std::int64_t count, DType dtype);

}  // namespace lockstep::detail
