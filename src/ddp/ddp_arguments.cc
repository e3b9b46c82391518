#include "lockstep/ddp/ddp_arguments.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "lockstep/base/check.h"
#include "lockstep/base/text.h"

namespace lockstep {

namespace {

std::string text_of(std::span<const std::int32_t> device_ids) {
  return device_ids.empty() ? "None" : "[" + join(device_ids, ", ") + "]";
}

std::string type_of(Device device) { return device == Device::kCpu ? "cpu" : "cuda"; }

/// Whether all of them are on devices of one type; false for none.
bool share_a_type(std::span<const NamedVariable> parameters) {
  return !parameters.empty() &&
         std::all_of(parameters.begin(), parameters.end(), [&](const NamedVariable& entry) {
           return entry.variable.data().device() == parameters.front().variable.data().device();
         });
}

}  // namespace

void check_one_rank(std::span<const NamedVariable> parameters, ProcessGroup& group) {
  for (const NamedVariable& parameter : parameters) {
    LOCKSTEP_CHECK(&parameter.variable.runtime() == &group.runtime(),
                   "parameter '" + parameter.name +
                       "' belongs to another rank than the group: each rank wraps its own model");
  }
}

void check_ddp_arguments(std::span<const NamedVariable> parameters, const DdpOptions& options) {
  LOCKSTEP_CHECK(!std::isnan(options.bucket_cap_mb), "bucket_cap_mb is not a number");
  const bool delays = !options.delay_all_reduce_named_params.empty();
  if (delays != options.param_to_hook_all_reduce.defined()) {
    throw ReducerError(
        "delay_all_reduce_named_params and param_to_hook_all_reduce need to be set at the same "
        "time.");
  }
  if (!delays && std::none_of(parameters.begin(), parameters.end(), [](const auto& entry) {
        return entry.variable.requires_grad();
      })) {
    throw ReducerError(
        "DistributedDataParallel is not needed when a module doesn't have any parameter that "
        "requires a gradient.");
  }
  if (options.device_ids.size() > 1) {
    throw ReducerError("device_ids can only be None or contain a single element.");
  }
  if (!share_a_type(parameters)) {
    throw ReducerError(
        "DistributedDataParallel's input module must be on the same type of devices, but input "
        "module parameters locate in " +
        std::string(parameters.empty() ? "set()" : "{'cpu', 'cuda'}") + ".");
  }
  // Device 0 counts as none here: the original asks for truth, not for presence.
  if (!options.device_ids.empty() || options.output_device.value_or(0) != 0) {
    const std::string output =
        options.output_device ? std::to_string(*options.output_device) : "None";
    throw ReducerError(
        "DistributedDataParallel device_ids and output_device arguments only work with "
        "single-device/multiple-device GPU modules or CPU modules, but got device_ids " +
        text_of(options.device_ids) + ", output_device " + output +
        ", and module parameters {device(type='" +
        type_of(parameters.front().variable.data().device()) + "')}.");
  }
}

}  // namespace lockstep
