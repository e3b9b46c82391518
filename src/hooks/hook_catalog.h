// Hooks by name and with PyTorch's options, as scenarios ask for them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/hooks/power_sgd_hook.h"
#include "lockstep/reducer/comm_hook.h"

namespace lockstep {

/// Post-local SGD before there are groups.
struct LocalSgdSpec {
  std::int32_t subgroup = 0;       ///< This many consecutive ranks average after the start; 0: all.
  std::int64_t start_iter = 0;     ///< start_localSGD_iter
  bool gradient_allreduce = true;  ///< post_local_gradient_allreduce
};

/// A hook as a value.
struct HookSpec {
  /// "none" (the reducer averages) | "allreduce" | "fp16" | "bf16" | "noop" | "quantize-per-tensor"
  /// | "quantize-per-channel" | "powersgd" | "post-local-sgd"
  std::string kind = "none";
  std::string wrapper = "none";  ///< "none" | "fp16" | "bf16": gradients inside the hook are these.
  PowerSgdOptions power_sgd{};
  LocalSgdSpec local_sgd{};
  std::int64_t channel = 512;  ///< quantize-per-channel: bucket_size

  /// Whether averages may differ from the mean of the gradients by more than rounding.
  bool loses() const;
};

/// Whether `spec` can become a hook in a group of `n_ranks`.
///
/// Errors: an unknown kind or wrapper; a wrapper around a hook that takes no 16-bit gradients;
///     options that PyTorch refuses, with its text; "batched-powersgd", which PyTorch ships but can
///     never compress with: it hands matrices to a routine that takes stacks of matrices, whose
///     assertion fails at the first compressed iteration.
Outcome check_hook(const HookSpec& spec, std::int32_t n_ranks);

/// Makes the hook. Collective for "post-local-sgd", which splits the group.
///
/// Requires: `group` outlives the hook; kind is not "none".
/// Errors: those of check_hook.
Result<std::unique_ptr<CommHook>> make_comm_hook(const HookSpec& spec, ProcessGroup& group);

}  // namespace lockstep
