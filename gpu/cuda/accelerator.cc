#include "lockstep/gpu/cuda/accelerator.h"

#include <cuda_runtime_api.h>

#include "lockstep/gpu/cuda/blas.h"
#include "lockstep/gpu/cuda/check.h"
#include "lockstep/gpu/cuda/detail/cuda_kernels.h"
#include "lockstep/gpu/cuda/device.h"
#include "lockstep/gpu/cuda/stream.h"
#include "lockstep/kernels/cpu_kernels.h"

namespace lockstep::cuda {

CudaKernels::CudaKernels(Executor& executor, const MemoryPool* memory, Blas* blas, bool functions)
    : executor_(&executor),
      memory_(memory),
      blas_(blas),
      functions_(functions),
      host_(make_cpu_kernels()) {}

namespace {

class CudaAccelerator final : public Accelerator {
 public:
  CudaAccelerator(ExecutionTarget place, Arithmetic arithmetic)
      : memory_(place == ExecutionTarget::kDevice ? MemoryKind::kManaged : MemoryKind::kHost),
        executor_(place),
        blas_(place == ExecutionTarget::kDevice && arithmetic.cublas
                  ? std::make_unique<Blas>(*executor_.stream())
                  : nullptr),
        kernels_(std::make_unique<CudaKernels>(
            executor_, &memory_, blas_.get(), arithmetic.functions)) {}

  Kernels& kernels() override { return kernels_; }

  void* allocate(std::size_t n_bytes) override { return memory_.allocate(n_bytes); }

  void release(void* data, std::size_t n_bytes) override { memory_.release(data, n_bytes); }

  void settle() override { executor_.settle(); }

 private:
  MemoryPool memory_;
  Executor executor_;
  std::unique_ptr<Blas> blas_;
  Kernels kernels_;
};

}  // namespace

std::unique_ptr<Accelerator> make_accelerator(ExecutionTarget place, Arithmetic arithmetic) {
  return std::make_unique<CudaAccelerator>(place, arithmetic);
}

Result<std::unique_ptr<Accelerator>> open_accelerator(std::int32_t local_rank,
                                                      Arithmetic arithmetic) {
  const DeviceCount devices = device_count();
  if (devices.count == 0) return Error{"no CUDA device was found (" + devices.reason + ")", {}};
  try {
    check(cudaSetDevice(local_rank % devices.count), "cudaSetDevice");
    return make_accelerator(ExecutionTarget::kDevice, arithmetic);
  } catch (const DeviceError& error) {
    return Error{error.what(), {}};
  }
}

}  // namespace lockstep::cuda
