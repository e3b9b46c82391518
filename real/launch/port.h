// Ports of this machine.
#pragma once

#include <cstdint>

#include "lockstep/base/error.h"

namespace lockstep::launch {

/// A port on which no process listens. Errors: the system has none.
Result<std::int32_t> free_port();

/// Errors: a process listens on `port`.
Outcome check_port(std::int32_t port);

}  // namespace lockstep::launch
