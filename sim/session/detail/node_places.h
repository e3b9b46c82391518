// What follows for a rank from the node that it is on.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/sim/session/session.h"

namespace lockstep::sim {

/// The node whose disk a rank's files are on.
std::int32_t disk_of(const SessionOptions& options, std::int32_t rank);
/// What a launcher says to each rank: the caller's words, then what follows from its node.
std::vector<RankVariable> environment_of(const SessionOptions& options);

}  // namespace lockstep::sim
