// Hooks by name and with PyTorch's options, as scenarios ask for them.
#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/base/error.h"
#include "lockstep/hooks/hook_kinds.h"
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
  HookKind kind = HookKind::kNone;
  HookWrapper wrapper = HookWrapper::kNone;
  PowerSgdOptions power_sgd{};
  LocalSgdSpec local_sgd{};
  std::int64_t channel = 512;  ///< quantize-per-channel: bucket_size

  /// Whether averages may differ from the mean of the gradients by more than rounding.
  bool loses() const;
};

/// Whether `spec` can become a hook in a group of `n_ranks`.
///
/// Errors: a wrapper around a hook that takes no 16-bit gradients;
///     options that PyTorch refuses, with its text; kBatchedPowerSgd, which PyTorch ships but can
///     never compress with: it hands matrices to a routine that takes stacks of matrices, whose
///     assertion fails at the first compressed iteration.
Outcome check_hook(const HookSpec& spec, std::int32_t n_ranks);

/// Makes the hook. Collective for kPostLocalSgd, which splits the group.
///
/// Requires: `group` outlives the hook; kind is not kNone.
/// Errors: those of check_hook.
Result<std::unique_ptr<CommHook>> make_comm_hook(const HookSpec& spec, ProcessGroup& group);

}  // namespace lockstep
