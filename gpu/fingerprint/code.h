// The kernel's intermediate code (PTX), as the build put it into this program.
#pragma once

#include <string_view>

namespace lockstep::fingerprint {

/// Ends with a zero. Empty where the build had no nvcc.
std::string_view kernel_code();

}  // namespace lockstep::fingerprint
