// The kernel of gpu/fingerprint, compiled to intermediate code that the driver translates for its device.
#include "lockstep/gpu/fingerprint/chunk.h"

namespace lockstep::fingerprint {

// Launch: one block of kThreads for each chunk of the batch's tensors; no shared memory beyond its own.
extern "C" __global__ void lockstep_fingerprints(const __grid_constant__ Batch batch) {
  __shared__ Partial strands[kThreads];
  const int thread = static_cast<int>(threadIdx.x);
  const auto block = static_cast<std::int32_t>(blockIdx.x);
  const Place place = place_of(batch, block);
  strands[thread] = strand_of(batch.tensors[place.tensor], place.chunk, thread);
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) strands[thread].add(strands[thread + half]);
  }
  if (thread == 0) batch.out[block] = strands[0];
}

}  // namespace lockstep::fingerprint
