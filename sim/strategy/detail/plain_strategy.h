// Strategies that are not recorded schedules.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/sim/fiber/action.h"

namespace lockstep::sim {

/// make_strategy without "@...".
Result<std::unique_ptr<Strategy>> make_plain_strategy(std::string_view name, std::uint64_t seed);

}  // namespace lockstep::sim
