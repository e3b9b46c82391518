// What a loop leaves in the trace of the state that is not a wrapper's business alone.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "lockstep/comm/rank_context.h"
#include "lockstep/nn/module.h"
#include "lockstep/trace/event.h"

namespace lockstep {

/// Records where this rank runs, as its launcher configured it, and the schema of its model: what
/// wrapping takes for granted.
void record_environment(const nn::Module& model,
                        std::span<const std::string> ignored,
                        const RankContext& context);

/// Records the model's buffers but the ignored ones, if there are any and a recorder is on.
void record_buffers(const nn::Module& model,
                    std::span<const std::string> ignored,
                    const RankContext& context,
                    StatePoint point,
                    std::int32_t wrapper);

}  // namespace lockstep
