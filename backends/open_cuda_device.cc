#include <string_view>

#include "lockstep/backends/connect.h"
#include "lockstep/gpu/cuda/accelerator.h"

namespace lockstep {

Result<std::unique_ptr<Accelerator>> open_cuda_device(const BackendOptions& options) {
  constexpr const char* kVariable = "LOCKSTEP_CUDA_GEMM";
  const std::string said = process_environment()(kVariable).value_or("cublas");
  if (said != "cublas" && said != "strict") {
    return Error{"'" + said + "' is not a way to compute matrix products: cublas or strict",
                 kVariable};
  }
  return cuda::open_accelerator(
      options.place.local_rank,
      said == "strict" ? cuda::LargeProducts::kStrict : cuda::LargeProducts::kCublas);
}

}  // namespace lockstep
