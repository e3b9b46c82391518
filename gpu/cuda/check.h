// The one function every CUDA result passes through.
#pragma once

#include <stdexcept>
#include <string>

#include <cuda_runtime_api.h>

#include "lockstep/base/call_site.h"

namespace lockstep::cuda {

/// A device or its driver refused a call. Not a bug in the program and not bad input: the run
/// cannot continue (exit code 3).
class DeviceError : public std::runtime_error {
 public:
  DeviceError(const std::string& call, const std::string& reason, CallSite site);

  const std::string& call() const { return call_; }

  CallSite site() const { return site_; }

 private:
  std::string call_;
  CallSite site_;
};

/// Usage: `check(cudaMalloc(&data, n_bytes), "cudaMalloc")`.
///
/// Errors: DeviceError "cudaMalloc: out of memory (cudaErrorMemoryAllocation, 2) at file:line" for
///     anything but cudaSuccess.
void check(cudaError_t status, const char* call, CallSite site = CallSite::here());

/// "out of memory (cudaErrorMemoryAllocation, 2)". Needs no device.
std::string describe(cudaError_t status);

}  // namespace lockstep::cuda
