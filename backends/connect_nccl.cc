#include "lockstep/backends/connect.h"
#include "lockstep/gpu/cuda/device.h"

namespace lockstep {

std::string obstacle_to_nccl() {
  const cuda::DeviceCount devices = cuda::device_count();
  if (devices.count == 0) return "no CUDA device was found (" + devices.reason + ")";
  return "this lockstep has no process group over NCCL";
}

Result<std::unique_ptr<ProcessGroup>> connect_nccl(const BackendOptions& /*options*/,
                                                   Runtime& /*runtime*/) {
  return Error{obstacle_to_nccl(), {}};
}

}  // namespace lockstep
