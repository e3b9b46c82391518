// NCCL's results as text.
#pragma once

#include <string>
#include <string_view>

#include "lockstep/gpu/nccl/api.h"

namespace lockstep::nccl {

/// "ncclRemoteError".
std::string_view name_of(Status status);

/// What the result says, for a reader: "a peer's process ended or the network failed
/// (ncclRemoteError, 6)".
std::string text_of(Status status);

/// As text_of, after the call's name and before what NCCL itself remembers of it.
std::string describe(Api& api, std::string_view call, Status status, Comm comm);

}  // namespace lockstep::nccl
