#include <optional>

#include "lockstep/base/enum_names.h"
#include "lockstep/base/text.h"
#include "lockstep/gpu/cuda/accelerator.h"
#include "lockstep/harness/backends/connect.h"

namespace lockstep {

namespace {

/// What a user may ask of the device's arithmetic.
enum class DeviceArithmetic : std::uint8_t { kFast, kStrict };

}  // namespace

template <>
inline constexpr EnumNames<2> kEnumNames<DeviceArithmetic> = {"fast", "strict"};

Result<std::unique_ptr<Accelerator>> open_cuda_device(const BackendOptions& options) {
  constexpr const char* kVariable = "LOCKSTEP_CUDA";
  const std::string said = process_environment()(kVariable).value_or("fast");
  const std::optional<DeviceArithmetic> arithmetic = parse_enum<DeviceArithmetic>(said);
  if (!arithmetic) {
    return Error{"'" + said + "' is not an arithmetic of the device: fast or strict" +
                     did_you_mean(said, kEnumNames<DeviceArithmetic>),
                 kVariable};
  }
  return cuda::open_accelerator(
      options.place.local_rank,
      arithmetic == DeviceArithmetic::kStrict ? cuda::kStrict : cuda::kFast);
}

}  // namespace lockstep
