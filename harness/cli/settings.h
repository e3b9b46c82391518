// `--set key=value`, as often as it was given.
#pragma once

#include <string>
#include <vector>

#include "lockstep/harness/format/load.h"
#include "lockstep/harness/scenario/scenario.h"

namespace lockstep::cli {

/// Errors: those of parse_setting.
Result<std::vector<Setting>> parse_settings(const std::vector<std::string>& texts);

}  // namespace lockstep::cli
