// Which devices there are, and why there are none. Free of CUDA headers, so that any room may ask.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::cuda {

/// The answer to "is there a GPU?" on any machine.
struct DeviceCount {
  std::int32_t count = 0;
  std::string reason;   ///< Why there is none; empty when there is one.
  bool broken = false;  ///< The driver answered with an error that is not "there is none".
};

/// Never throws: a machine without a driver has 0 devices and a reason.
DeviceCount device_count() noexcept;

/// device_count's reading of what CUDA answered: `status` is a cudaError_t. No driver, a stub of
/// one and a driver without devices are healthy machines without a GPU; anything else is broken.
DeviceCount read_device_count(std::int32_t status, std::int32_t count);

/// What a report says about the device a run used.
struct DeviceInfo {
  std::string name;                ///< "NVIDIA H100 80GB HBM3"
  std::int32_t compute_major = 0;  ///< 9 in "sm_90"
  std::int32_t compute_minor = 0;  ///< 0 in "sm_90"
  std::int64_t memory_bytes = 0;
  std::int32_t multiprocessors = 0;
};

/// Requires: 0 <= device < device_count().count. Errors: DeviceError.
DeviceInfo device_info(std::int32_t device);

/// "13.0" for 13000, the form in which CUDA numbers its versions; "none" for 0.
std::string cuda_version_text(std::int32_t version);
/// Of the runtime linked in, and of the newest runtime the driver serves (0 without a driver).
std::int32_t runtime_version();
std::int32_t driver_version();

}  // namespace lockstep::cuda
