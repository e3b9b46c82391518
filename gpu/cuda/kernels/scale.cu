// out[i] = factor * in[i]
//
// Reference: Kernels::scale on the CPU, compared bit for bit in tests/gpu/cuda/kernels_test.cc.
// Launch:    1-D grid, kBlockThreads threads; grid-stride, so any grid size is correct.
// Rounding:  one multiply an element, no FMA (--fmad=false): equal bits to the CPU.
#include "lockstep/gpu/cuda/check.h"
#include "lockstep/gpu/cuda/kernels/launch.h"
#include "lockstep/gpu/cuda/kernels/scale.h"

namespace lockstep::cuda {

namespace {

template <typename T>
__global__ void scale_kernel(T* out, const T* in, T factor, std::int64_t n_elems) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < n_elems;
       i += stride) {
    out[i] = factor * in[i];
  }
}

template <typename T>
void launch(T* out, const T* in, T factor, std::int64_t n_elems, const Stream& stream) {
  if (n_elems == 0) return;
  scale_kernel<<<grid_blocks(n_elems), kBlockThreads, 0, stream.handle()>>>(
      out, in, factor, n_elems);
  check(cudaGetLastError(), "launch of scale_kernel");
}

}  // namespace

void scale(float* out, const float* in, float factor, std::int64_t n_elems, const Stream& stream) {
  launch(out, in, factor, n_elems, stream);
}

void scale(
    double* out, const double* in, double factor, std::int64_t n_elems, const Stream& stream) {
  launch(out, in, factor, n_elems, stream);
}

}  // namespace lockstep::cuda
