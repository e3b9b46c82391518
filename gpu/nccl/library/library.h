// The real NCCL and CUDA runtime, as the process group's table of calls.
#pragma once

#include <memory>

#include "lockstep/gpu/nccl/api.h"

namespace lockstep::nccl {

/// Communicators are made non-blocking, so that each can be aborted at any time.
///
/// Not run on a GPU: it is compiled and linked against CUDA 13 and NCCL 2.28.9, and everything
/// above the table is tested with an emulation.
std::shared_ptr<Api> make_library();

}  // namespace lockstep::nccl
