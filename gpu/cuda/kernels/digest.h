// The tensor digest sm64, on the device.
#pragma once

#include <cstdint>

#include "lockstep/gpu/cuda/stream.h"

namespace lockstep::cuda {

/// What is to be digested: n_elems elements of elem_bytes (1, 2, 4 or 8) each, in device memory.
struct DigestInput {
  const void* data = nullptr;
  std::int64_t n_elems = 0;
  std::int32_t elem_bytes = 4;
  std::uint64_t base = 0;  ///< Position of the first element in the whole that this is a slice of.
};

/// Queues *sum += sm64(input) on `stream`, so that slices of one tensor may be added up on the
/// device.
///
/// Requires:      `sum` is device memory and holds 0 or the digest so far.
/// Errors:        ContractViolation for another element size; DeviceError when the launch is
/// refused. Deterministic: addition modulo 2^64 does not depend on the order in which threads add.
/// Source:        the definition in tensor/digest.h.
void add_digest(std::uint64_t* sum, const DigestInput& input, const Stream& stream);

}  // namespace lockstep::cuda
