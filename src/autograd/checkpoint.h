// Activation checkpointing: a part of the forward that is computed again inside the backward.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "lockstep/autograd/variable.h"

namespace lockstep {

/// What is checkpointed. Must compute the same whenever it is called with the same inputs.
using Segment = std::function<Variable(std::span<const Variable>)>;

/// Copies some state, a random generator's say, and returns what puts the copy back.
using StateKeeper = std::function<std::function<void()>()>;

/// PyTorch's arguments of torch.utils.checkpoint, by their names.
struct CheckpointOptions {
  bool use_reentrant = true;
  /// PyTorch's preserve_rng_state, for generators that are the caller's: the state of the forward
  /// comes back for the second computation, and afterwards the state from before that. Empty: what
  /// the segment draws the second time continues from wherever its generators are.
  StateKeeper keep_state = {};
};

/// Runs `segment` now and once more in the backward. Side effects of the segment (running
/// statistics) happen twice.
///
/// Reentrant: the first run is not recorded. The backward records the second one and differentiates
/// it in a separate pass, nested in the outer one. So parameters inside the segment are invisible
/// to a search of the outer graph, and receive their gradient once for each checkpoint that
/// uses them: both matter under DDP. The result is outside the graph when no input requires a
/// gradient, whatever the segment's parameters require.
///
/// Otherwise: the first run is recorded without the values that the backward needs; the first of
/// them that is asked for makes the segment run again. The graph is that of a plain forward.
///
/// Requires: one to three inputs, the same as the segment takes.
/// Errors: ContractViolation when the second run saves other tensors than the first one.
/// Source: torch.utils.checkpoint.checkpoint. A departure: without reentrance the second run goes
///     to its end, where PyTorch stops at the last tensor it needs.
Variable checkpoint(Segment segment, std::vector<Variable> inputs, CheckpointOptions options = {});

}  // namespace lockstep
