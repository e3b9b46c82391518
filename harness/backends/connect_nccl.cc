#include <cstdlib>
#include <string>

#include "lockstep/gpu/cuda/device.h"
#include "lockstep/gpu/nccl/library/library.h"
#include "lockstep/gpu/nccl/nccl_group.h"
#include "lockstep/harness/backends/connect.h"

namespace lockstep {

namespace {

// Several ranks on one GPU, for the cross-check: NCCL refuses that unless each looks like a machine
// of its own, and then they must talk through sockets. The user's own settings stay.
void share_gpu(std::int32_t rank) {
  constexpr int kKeep = 0;
  const std::string host = "lockstep-rank-" + std::to_string(rank);
  setenv("NCCL_HOSTID", host.c_str(), kKeep);  // NOLINT(concurrency-mt-unsafe)
  for (const auto& [name, value] : {std::pair{"NCCL_P2P_DISABLE", "1"},
                                    std::pair{"NCCL_SHM_DISABLE", "1"},
                                    std::pair{"NCCL_NET", "Socket"},
                                    std::pair{"NCCL_NET_PLUGIN", "none"},
                                    std::pair{"NCCL_SOCKET_IFNAME", "lo"},
                                    std::pair{"NCCL_MNNVL_ENABLE", "0"},
                                    std::pair{"NCCL_NVLS_ENABLE", "0"}}) {
    setenv(name, value, kKeep);  // NOLINT(concurrency-mt-unsafe)
  }
}

}  // namespace

std::string obstacle_to_nccl() {
  const cuda::DeviceCount devices = cuda::device_count();
  if (devices.count > 0) return {};
  return "no CUDA device was found (" + devices.reason + ")";
}

Result<std::unique_ptr<ProcessGroup>> connect_nccl(const BackendOptions& options,
                                                   Runtime& runtime) {
  if (options.check_arrivals) {
    return Error{"what arrives is compared over gloo only: NCCL promises no order of additions",
                 "check_arrivals"};
  }
  if (const std::string obstacle = obstacle_to_nccl(); !obstacle.empty()) {
    return Error{obstacle, {}};
  }
  const std::int32_t n_devices = cuda::device_count().count;
  const bool shares = parse_int(process_environment()("LOCKSTEP_SHARE_GPU").value_or("")) == 1;
  if (options.place.local_rank >= n_devices && !shares) {
    return Error{"local rank " + std::to_string(options.place.local_rank) +
                     " has no GPU of its own, this machine has " + std::to_string(n_devices) +
                     "; set LOCKSTEP_SHARE_GPU=1 to share them, slowly, for a cross-check",
                 {}};
  }
  if (shares) share_gpu(options.place.rank);
  return nccl::connect(nccl::make_library(),
                       {.rank = options.place.rank,
                        .size = options.place.world_size,
                        .rendezvous = options.rendezvous,
                        .timeout = options.timeout,
                        .check_signatures = options.check_signatures,
                        .device = options.place.local_rank % n_devices},
                       runtime);
}

}  // namespace lockstep
