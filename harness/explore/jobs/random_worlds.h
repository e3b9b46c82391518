// Random worlds, schedules and faults for programs in C++, and simpler ones.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "lockstep/run.h"

namespace lockstep {

/// Worlds of `least` to `most` ranks.
struct WorldScope {
  std::int32_t least = 1;
  std::int32_t most = 8;
};

/// A schedule by its name, as RunOptions::strategy and scenarios take it.
/// Deterministic: a function of the seed.
std::string draw_schedule(std::uint64_t seed);
/// Empty for the simplest one, "run-to-block".
std::vector<std::string> simpler_schedules(const std::string& schedule);

/// Options for run_ranks: a number of ranks, a schedule, a reduction order, a fidelity. A correct
/// program passes under all of them.
/// Requires: 1 <= least <= most.
/// Deterministic: a function of the arguments.
RunOptions draw_world(const WorldScope& scope, std::uint64_t seed);
/// Worlds with one thing less, the smaller ones first.
std::vector<RunOptions> simpler_worlds(const RunOptions& world, const WorldScope& scope);

/// Up to scope.n_faults of the faults that sim::swarm(scope) draws from the seed.
std::vector<sim::Fault> draw_faults(sim::SwarmOptions scope, std::uint64_t seed);
/// Plans with fewer faults.
std::vector<std::vector<sim::Fault>> simpler_faults(const std::vector<sim::Fault>& faults);

/// What a reader needs to repeat it: "3 ranks, random:seed=7, gloo-ring, message".
std::string describe(const RunOptions& world);

}  // namespace lockstep
