// What gpu_memory_bench.cu measures with: memory of each kind, what moves it, and kernels with results that can
// be compared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include <cuda_runtime_api.h>

#include "lockstep/gpu/cuda/check.h"
#include "lockstep/gpu/cuda/detail/launch.cuh"
#include "lockstep/gpu/cuda/executor.h"

namespace lockstep::bench {

constexpr int kDevice = 0;

enum class Kind : std::uint8_t { kManaged, kPlain, kPinned };

/// Floats in one kind of memory.
class Memory {
 public:
  Memory(Kind kind, std::size_t n_bytes) : kind_(kind), n_bytes_(n_bytes) {
    void* data = nullptr;
    switch (kind) {
      case Kind::kManaged:
        cuda::check(cudaMallocManaged(&data, n_bytes), "cudaMallocManaged");
        break;
      case Kind::kPlain:
        cuda::check(cudaMalloc(&data, n_bytes), "cudaMalloc");
        break;
      case Kind::kPinned:
        cuda::check(cudaHostAlloc(&data, n_bytes, cudaHostAllocDefault), "cudaHostAlloc");
        break;
    }
    data_ = static_cast<float*>(data);
  }

  ~Memory() {
    // A destructor cannot report errors; a broken device fails the next call.
    static_cast<void>(kind_ == Kind::kPinned ? cudaFreeHost(data_) : cudaFree(data_));
  }

  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  Memory(Memory&&) = delete;
  Memory& operator=(Memory&&) = delete;

  float* data() const { return data_; }

  std::size_t n_bytes() const { return n_bytes_; }

  std::int64_t n_elems() const { return static_cast<std::int64_t>(n_bytes_ / sizeof(float)); }

 private:
  Kind kind_;
  std::size_t n_bytes_;
  float* data_ = nullptr;
};

/// Queues a copy between pinned memory and the device's.
inline void copy(cuda::Executor& executor,
                 float* target,
                 const float* source,
                 std::size_t n_bytes) {
  executor.mark_busy();
  cuda::check(
      cudaMemcpyAsync(target, source, n_bytes, cudaMemcpyDefault, executor.stream()->handle()),
      "cudaMemcpyAsync");
}

/// A template because CUDA 12 takes the number of a place, and later versions a struct: only the call
/// that exists is compiled.
template <typename T>
void prefetch(cuda::Executor& executor, T* data, std::size_t n_bytes, int place) {
  executor.mark_busy();
  auto* const stream = executor.stream()->handle();
  if constexpr (requires { cudaMemPrefetchAsync(data, n_bytes, place, stream); }) {
    cuda::check(cudaMemPrefetchAsync(data, n_bytes, place, stream), "cudaMemPrefetchAsync");
  } else {
    const bool host = place == cudaCpuDeviceId;
    cudaMemLocation location = {};
    location.type = host ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice;
    location.id = host ? 0 : place;
    cuda::check(cudaMemPrefetchAsync(data, n_bytes, location, 0U, stream), "cudaMemPrefetchAsync");
  }
}

// ---- kernels. All numbers are integers below 2^24, so that equality is the right comparison.

/// Small numbers whose period is not a divisor of any block's or page's size.
__host__ __device__ inline float pattern(std::int64_t i) { return static_cast<float>(i % 251 + 1); }

struct Fill {
  float* y;
  float factor;

  __host__ __device__ void operator()(std::int64_t i) const { y[i] = factor * pattern(i); }
};

struct AddScaled {
  float* y;
  const float* x;
  float a;

  __host__ __device__ void operator()(std::int64_t i) const { y[i] = a * x[i] + y[i]; }
};

struct Scale {
  float* out;
  const float* in;
  float a;

  __host__ __device__ void operator()(std::int64_t i) const { out[i] = a * in[i]; }
};

/// Says whether y differs from what Fill would write.
struct Differs {
  const float* y;
  float factor;
  std::uint32_t* found;

  __host__ __device__ void operator()(std::int64_t i) const {
    if (y[i] != factor * pattern(i)) *found = 1;
  }
};

inline void expect(bool right, const std::string& what) {
  if (!right) throw std::runtime_error("wrong result: " + what);
}

/// Compares where the elements are: the host's reading would move managed pages.
inline void expect_filled(cuda::Executor& executor,
                          const Memory& y,
                          float factor,
                          const std::string& what) {
  auto* const found = static_cast<std::uint32_t*>(executor.scratch());
  *found = 0;
  executor.run(y.n_elems(), Differs{y.data(), factor, found});
  executor.settle();
  expect(*found == 0, what);
}

}  // namespace lockstep::bench
