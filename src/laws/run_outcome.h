// How a run ended, laws included: what a report says first.
#pragma once

#include <cstdint>

#include "lockstep/base/enum_names.h"

namespace lockstep {

enum class RunOutcome : std::uint8_t {
  kOk,        ///< Every rank finished, and no law was broken.
  kFindings,  ///< Every rank finished, and laws were broken.
  kHang,      ///< No rank could continue, or ranks ran without end.
  kError,     ///< A rank failed.
};
template <>
inline constexpr EnumNames<4> kEnumNames<RunOutcome> = {"ok", "findings", "hang", "error"};

/// Whether every rank finished.
constexpr bool is_complete(RunOutcome outcome) {
  return outcome == RunOutcome::kOk || outcome == RunOutcome::kFindings;
}

}  // namespace lockstep
