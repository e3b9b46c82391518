// The backends whose ranks are processes, as an explicit table: no self-registering globals.
#pragma once

#include <span>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/real/session/backend.h"

namespace lockstep {

/// The backends this build holds.
std::span<const Backend> built_backends();

/// By name. Errors: unknown, or known but not part of this build, with the reason.
Result<Backend> find_backend(std::string_view name);

}  // namespace lockstep
