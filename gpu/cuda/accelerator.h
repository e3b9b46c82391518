// A CUDA device as a runtime's accelerator; or the same kernels on the host, for tests.
#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/base/error.h"
#include "lockstep/gpu/cuda/executor.h"
#include "lockstep/tensor/accelerator.h"

namespace lockstep::cuda {

/// Who computes what has other bits in NVIDIA's libraries than on the processor.
struct Arithmetic {
  /// Matrix products from 64^3 multiplications on: cuBLAS, without TF32, or our own kernel, in the
  /// processor's order (ops/blocked_product.cuh).
  bool cublas = true;
  /// exp, log, tanh and erf: the device, or the processor, in the device's memory.
  bool functions = true;
};

constexpr Arithmetic kFast{.cublas = true, .functions = true};
constexpr Arithmetic kStrict{.cublas = false, .functions = false};  ///< The processor's bits.

/// The kernels of gpu/cuda, with memory of the same place. On the host (ExecutionTarget::kHost,
/// kHostLate) all memory is the heap's, and there is no cuBLAS.
std::unique_ptr<Accelerator> make_accelerator(ExecutionTarget place, Arithmetic arithmetic);

/// The device of local rank `local_rank`, which takes the devices in turn, made current.
///
/// Errors: there is no device, it refuses, or cuBLAS is wanted and not found.
Result<std::unique_ptr<Accelerator>> open_accelerator(std::int32_t local_rank,
                                                      Arithmetic arithmetic);

}  // namespace lockstep::cuda
