// Misuse of DDP, in PyTorch's words.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace lockstep {

/// DDP was used in a way it cannot follow. The text is PyTorch's, so that searching for it helps.
class ReducerError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What is known when a forward begins although the last backward left parameters unreduced.
struct UnfinishedReduction {
  std::int32_t rank = 0;
  bool find_unused_parameters = false;
  bool static_graph = false;
  std::span<const std::int32_t> missing;       ///< Parameters that received no gradient, ascending.
  std::span<const std::string> missing_names;  ///< Empty unless TORCH_DISTRIBUTED_DEBUG asks.
};

/// Source: c10d reducer.cpp, ensure_prior_reduction_finished.
std::string unfinished_reduction_text(const UnfinishedReduction& facts);

/// A parameter of a static graph received a gradient more often than in the first backward.
/// Source: c10d reducer.cpp, autograd_hook.
inline constexpr std::string_view kGraphChangedText =
    "Your training graph has changed in this iteration, e.g., one parameter is unused in first "
    "iteration, but then got used in the second iteration. this is not compatible with "
    "static_graph set to True.";

/// A parameter counts as used, from an iteration without synchronisation, but has no gradient.
/// Source: c10d reducer.cpp of PyTorch 2, mark_variable_ready_dense.
inline constexpr std::string_view kUndefinedButUsedText =
    "Encountered gradient which is undefined, but still allreduced by DDP reducer. This indicates "
    "a bug in DDP implementation, please report a bug with a repro to PyTorch.";

/// Parameter `index` became ready twice in one backward. `name` is empty unless debugging is on.
/// Source: c10d reducer.cpp, checkAndRaiseMarkedTwiceError.
std::string marked_twice_text(std::size_t index, std::string_view name);

}  // namespace lockstep
