#include "lockstep/gpu/cuda/check.h"

namespace lockstep::cuda {

namespace {

std::string message(const std::string& call, const std::string& reason, CallSite site) {
  std::string text = call + ": " + reason;
  if (site.known()) text += std::string(" at ") + site.file + ":" + std::to_string(site.line);
  return text;
}

}  // namespace

DeviceError::DeviceError(const std::string& call, const std::string& reason, CallSite site)
    : std::runtime_error(message(call, reason, site)), call_(call), site_(site) {}

std::string describe(cudaError_t status) {
  return std::string(cudaGetErrorString(status)) + " (" + cudaGetErrorName(status) + ", " +
         std::to_string(static_cast<int>(status)) + ")";
}

void check(cudaError_t status, const char* call, CallSite site) {
  if (status != cudaSuccess) throw DeviceError(call, describe(status), site);
}

}  // namespace lockstep::cuda
