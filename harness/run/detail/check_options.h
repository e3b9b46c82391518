// What RunOptions have to say to make sense.
#pragma once

#include "lockstep/run.h"

namespace lockstep::detail {

/// Checks what needs only the options themselves, before a world is made of them.
/// Errors: std::invalid_argument that names the option, its value and what it may be.
void check_options(const RunOptions& options);

}  // namespace lockstep::detail
