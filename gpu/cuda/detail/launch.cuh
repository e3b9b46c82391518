// The two executors of a functor: a kernel whose threads take its indices, and a loop.
#pragma once

#include <cstddef>
#include <type_traits>

#include "lockstep/gpu/cuda/check.h"
#include "lockstep/gpu/cuda/executor.h"
#include "lockstep/gpu/cuda/launch.h"
#include "lockstep/gpu/cuda/stream.h"

namespace lockstep::cuda {

// Launch:   1-D grid, block_threads threads; grid-stride, so any grid size is correct.
// Rounding: what the functor says: --fmad=false, IEEE division and square root, no flushing of
//           subnormals.
template <typename F>
__global__ void run_functor(F f, std::int64_t n) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += stride) {
    f(i);
  }
}

template <typename F>
void loop_over(const void* functor, std::int64_t n) {
  const F f = *static_cast<const F*>(functor);
  for (std::int64_t i = 0; i < n; ++i) f(i);
}

template <typename F>
void Executor::run(std::int64_t n, const F& f) {
  static_assert(std::is_trivially_copyable_v<F> && alignof(F) <= alignof(std::max_align_t));
  if (n == 0) return;
  busy_ = true;
  if (place_ != ExecutionTarget::kDevice) return run_on_host(loop_over<F>, &f, sizeof(F), n);
  run_functor<<<grid_blocks(n), block_threads(n), 0, stream_->handle()>>>(f, n);
  check(cudaGetLastError(), "launch of a kernel");
}

}  // namespace lockstep::cuda
