// A group of one: every operation completes at once. The single-process reference.
#pragma once

#include <memory>

#include "lockstep/comm/process_group.h"

namespace lockstep {

/// Requires: runtime outlives the group.
std::unique_ptr<ProcessGroup> make_loopback_group(Runtime& runtime);

}  // namespace lockstep
