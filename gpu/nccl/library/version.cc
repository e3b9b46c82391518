#include "lockstep/gpu/nccl/library/version.h"

#include <nccl.h>

#include "lockstep/gpu/cuda/check.h"

namespace lockstep::nccl {

namespace {

struct Parts {
  std::int32_t major;
  std::int32_t minor;
  std::int32_t patch;
};

// NCCL_VERSION in nccl.h: from 2.9 on two digits for each part, before that one for the minor.
Parts parts(std::int32_t code) {
  if (code < 10'000) return {code / 1000, code / 100 % 10, code % 100};
  return {code / 10'000, code / 100 % 100, code % 100};
}

}  // namespace

Versions versions() {
  int library = 0;
  const ncclResult_t status = ncclGetVersion(&library);
  if (status != ncclSuccess) {
    throw cuda::DeviceError("ncclGetVersion", ncclGetErrorString(status), CallSite::here());
  }
  return {.header = NCCL_VERSION_CODE, .library = library};
}

std::string version_text(std::int32_t code) {
  const Parts version = parts(code);
  return std::to_string(version.major) + "." + std::to_string(version.minor) + "." +
         std::to_string(version.patch);
}

std::optional<std::string> mismatch(const Versions& versions) {
  const bool same_major = parts(versions.header).major == parts(versions.library).major;
  if (same_major && versions.library >= versions.header) return std::nullopt;
  return "compiled against NCCL " + version_text(versions.header) + ", but the library found is " +
         version_text(versions.library) +
         (same_major ? ", which is older" : ", which has another interface");
}

}  // namespace lockstep::nccl
