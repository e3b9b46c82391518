#include "lockstep/gpu/cuda/device.h"

#include <exception>

#include <cuda_runtime_api.h>

#include "lockstep/gpu/cuda/check.h"

namespace lockstep::cuda {

DeviceCount device_count() noexcept {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  // The failure would otherwise be reported again by the next call that asks for the last error.
  static_cast<void>(cudaGetLastError());
  try {
    return read_device_count(status, count);
  } catch (const std::exception&) {  // No memory even for the reason.
    return {};
  }
}

DeviceCount read_device_count(std::int32_t status, std::int32_t count) {
  const auto code = static_cast<cudaError_t>(status);
  if (code == cudaSuccess && count > 0) return {.count = count, .reason = "", .broken = false};
  switch (code) {
    case cudaSuccess:
    case cudaErrorNoDevice:
      return {.count = 0, .reason = "the driver sees no CUDA device", .broken = false};
    case cudaErrorInsufficientDriver:
      // CUDA gives this code when there is no driver at all, too; only the version
      // distinguishes them.
      if (driver_version() == 0) {
        return {.count = 0, .reason = "no NVIDIA driver is installed", .broken = false};
      }
      return {.count = 0,
              .reason = "the NVIDIA driver serves CUDA " + cuda_version_text(driver_version()) +
                        ", this program needs " + cuda_version_text(runtime_version()),
              .broken = false};
    case cudaErrorStubLibrary:
      return {
          .count = 0, .reason = "libcuda.so is the toolkit's stub, not a driver", .broken = false};
    default:
      return {.count = 0, .reason = "cudaGetDeviceCount: " + describe(code), .broken = true};
  }
}

DeviceInfo device_info(std::int32_t device) {
  cudaDeviceProp properties = {};
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  return {.name = properties.name,
          .compute_major = properties.major,
          .compute_minor = properties.minor,
          .memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem),
          .multiprocessors = properties.multiProcessorCount};
}

std::string cuda_version_text(std::int32_t version) {
  if (version <= 0) return "none";
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::int32_t runtime_version() {
  int version = 0;
  check(cudaRuntimeGetVersion(&version), "cudaRuntimeGetVersion");
  return version;
}

std::int32_t driver_version() {
  int version = 0;
  check(cudaDriverGetVersion(&version), "cudaDriverGetVersion");
  return version;
}

}  // namespace lockstep::cuda
