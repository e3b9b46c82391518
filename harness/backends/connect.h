// The functions of each backend; which of them exist is up to the build (built_backends()).
#pragma once

#include "lockstep/real/session/backend.h"

namespace lockstep {

/// Processes over TCP.
Result<std::unique_ptr<ProcessGroup>> connect_gloo(const BackendOptions& options, Runtime& runtime);

std::string obstacle_to_gloo();

/// One GPU a process. Errors: "no CUDA device was found" and what else keeps NCCL from working.
Result<std::unique_ptr<ProcessGroup>> connect_nccl(const BackendOptions& options, Runtime& runtime);
std::string obstacle_to_nccl();
/// The GPU of this process's local rank. With LOCKSTEP_CUDA=strict in the environment every
/// operation has the processor's bits (docs/gpu.md).
/// Errors: as cuda::open_accelerator.
Result<std::unique_ptr<Accelerator>> open_cuda_device(const BackendOptions& options);

}  // namespace lockstep
