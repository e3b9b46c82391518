// A program's body, and what it reduces by itself.
#pragma once

#include <functional>

#include "lockstep/comm/rank_context.h"

namespace lockstep::detail {

/// Calls `body`; gradients that it reduces without a wrapper are recorded as those of one
/// (ddp/own_loops.h).
void follow_loops(const std::function<void(RankContext&)>& body, RankContext& context);

}  // namespace lockstep::detail
