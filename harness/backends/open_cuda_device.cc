#include <string_view>

#include "lockstep/gpu/cuda/accelerator.h"
#include "lockstep/harness/backends/connect.h"

namespace lockstep {

Result<std::unique_ptr<Accelerator>> open_cuda_device(const BackendOptions& options) {
  constexpr const char* kVariable = "LOCKSTEP_CUDA";
  const std::string said = process_environment()(kVariable).value_or("fast");
  if (said != "fast" && said != "strict") {
    return Error{"'" + said + "' is not an arithmetic of the device: fast or strict", kVariable};
  }
  return cuda::open_accelerator(options.place.local_rank,
                                said == "strict" ? cuda::kStrict : cuda::kFast);
}

}  // namespace lockstep
