// How a rank's program ended and why, as data: what schedulers know, traces keep and laws judge by.
#pragma once

#include <cstdint>

#include "lockstep/base/enum_names.h"

namespace lockstep {

/// How a rank's program ended. In the order of the names: laws report one kind after another.
enum class EndOutcome : std::uint8_t {
  kNone,       ///< Not recorded.
  kException,  ///< It threw.
  kKilled,     ///< From outside.
  kOk,         ///< By itself.
  kStuck,      ///< It was torn down because no rank could continue.
};
template <>
inline constexpr EnumNames<5> kEnumNames<EndOutcome> = {"", "exception", "killed", "ok", "stuck"};

/// Why a rank was torn down, where its outcome leaves that open.
enum class EndReason : std::uint8_t {
  kNone,         ///< Nothing to add.
  kLivelock,     ///< It and others ran without end.
  kOtherFailed,  ///< Another rank had failed, and the whole world was ended.
  kLawBroken,    ///< Who watched the job ended it, since a law was broken.
};
template <>
inline constexpr EnumNames<4> kEnumNames<EndReason> = {
    "", "livelock", "other-failed", "law-broken"};

}  // namespace lockstep
