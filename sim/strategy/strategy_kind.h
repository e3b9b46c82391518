// The names of strategies.
#pragma once

#include <cstdint>

#include "lockstep/base/enum_names.h"

namespace lockstep::sim {

/// What a strategy's name says before its settings ("pct" in "pct:depth=3").
enum class StrategyKind : std::uint8_t {
  kRoundRobin,
  kRunToBlock,
  kRandom,
  kPct,
  kUniform,
  kExhaustive,  ///< Makes many schedules: for exploring, not for one run.
};

}  // namespace lockstep::sim

namespace lockstep {

template <>
inline constexpr EnumNames<6> kEnumNames<sim::StrategyKind> = {
    "round-robin", "run-to-block", "random", "pct", "uniform", "exhaustive"};

}  // namespace lockstep
