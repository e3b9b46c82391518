// out = factor * in, on the device.
#pragma once

#include <cstdint>

#include "lockstep/gpu/cuda/stream.h"

namespace lockstep::cuda {

/// Queues out[i] = factor * in[i] on `stream`. `out` may be `in`.
///
/// Shapes:        (n_elems,), device memory.
/// Errors:        DeviceError when the launch is refused.
/// Deterministic: one rounded multiply an element: the bits of Kernels::scale on the CPU (tensor).
void scale(float* out, const float* in, float factor, std::int64_t n_elems, const Stream& stream);
void scale(
    double* out, const double* in, double factor, std::int64_t n_elems, const Stream& stream);

}  // namespace lockstep::cuda
