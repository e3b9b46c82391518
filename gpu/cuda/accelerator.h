// A CUDA device as a runtime's accelerator; or the same kernels on the host, for tests.
#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/base/error.h"
#include "lockstep/gpu/cuda/executor.h"
#include "lockstep/tensor/accelerator.h"

namespace lockstep::cuda {

/// What computes matrix products from 64^3 multiplications on. Below, our own kernel does, with the
/// processor's bits.
enum class LargeProducts : std::uint8_t {
  kCublas,  ///< Fast; its own order of sums, without TF32.
  kStrict,  ///< Ours, on every GPU in the processor's order (ops/blocked_product.cuh).
};

/// The kernels of gpu/cuda, with memory of the same place. On the host (Place::kHost, kHostLate)
/// all memory is the heap's, and products are strict.
std::unique_ptr<Accelerator> make_accelerator(Place place, LargeProducts products);

/// The device of local rank `local_rank`, which takes the devices in turn, made current.
///
/// Errors: there is no device, it refuses, or cuBLAS is wanted and not found, in words.
Result<std::unique_ptr<Accelerator>> open_accelerator(std::int32_t local_rank,
                                                      LargeProducts products);

}  // namespace lockstep::cuda
