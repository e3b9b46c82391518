// Where a rank runs, for its trace.
#pragma once

#include "lockstep/comm/rank_context.h"

namespace lockstep {

/// Records what the launcher said to this rank about its place (WORLD_SIZE, LOCAL_RANK, GROUP_RANK,
/// LOCKSTEP_DEVICE); where it said nothing about the world, its size as the rank knows it. Does
/// nothing without a recorder. A run does this for every rank before its program begins.
void record_environment(const RankContext& context);

}  // namespace lockstep
