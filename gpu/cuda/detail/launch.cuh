// The two executors of a functor: a kernel whose threads take its indices, and a loop.
#pragma once

#include "lockstep/gpu/cuda/check.h"
#include "lockstep/gpu/cuda/executor.h"
#include "lockstep/gpu/cuda/launch.h"
#include "lockstep/gpu/cuda/stream.h"

namespace lockstep::cuda {

// Launch:   1-D grid, kBlockThreads threads; grid-stride, so any grid size is correct.
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
void run_on_host(const F& f, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) f(i);
}

template <typename F>
void Executor::run(std::int64_t n, const F& f) {
  if (n == 0) return;
  busy_ = true;
  switch (place_) {
    case Place::kDevice:
      run_functor<<<grid_blocks(n), kBlockThreads, 0, stream_->handle()>>>(f, n);
      check(cudaGetLastError(), "launch of a kernel");
      return;
    case Place::kHost:
      run_on_host(f, n);
      return settle();
    case Place::kHostLate:
      late_.emplace_back([f, n] { run_on_host(f, n); });
      return;
  }
}

}  // namespace lockstep::cuda
