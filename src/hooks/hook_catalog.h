// Hooks by name, as scenarios ask for them.
#pragma once

#include <memory>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/dist/comm_hook.h"

namespace lockstep {

/// Makes a hook with PyTorch's default options: "allreduce", "fp16", "bf16", "noop",
/// "quantize-per-tensor", "quantize-per-channel", "powersgd".
///
/// Requires: `group` outlives the hook.
/// Errors:   an unknown name; "batched-powersgd", which PyTorch ships but can never compress with:
///           it hands matrices to a routine that takes stacks of matrices, whose assertion fails at
///           the first compressed iteration.
Result<std::unique_ptr<CommHook>> make_comm_hook(std::string_view name, ProcessGroup& group);

}  // namespace lockstep
