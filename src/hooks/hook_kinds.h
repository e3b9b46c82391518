// Which communication hooks there are, with the words that scenarios write for them.
#pragma once

#include <cstdint>

#include "lockstep/base/enum_names.h"

namespace lockstep {

enum class HookKind : std::uint8_t {
  kNone,  ///< The reducer averages.
  kAllReduce,
  kFp16,
  kBf16,
  kNoop,
  kQuantizePerTensor,
  kQuantizePerChannel,
  kPowerSgd,
  kBatchedPowerSgd,  ///< Which PyTorch ships, but refuses at its first compressed iteration.
  kPostLocalSgd,
};
template <>
inline constexpr EnumNames<10> kEnumNames<HookKind> = {"none",
                                                       "allreduce",
                                                       "fp16",
                                                       "bf16",
                                                       "noop",
                                                       "quantize-per-tensor",
                                                       "quantize-per-channel",
                                                       "powersgd",
                                                       "batched-powersgd",
                                                       "post-local-sgd"};

/// What gradients are inside a hook.
enum class HookWrapper : std::uint8_t { kNone, kFp16, kBf16 };
template <>
inline constexpr EnumNames<3> kEnumNames<HookWrapper> = {"none", "fp16", "bf16"};

}  // namespace lockstep
