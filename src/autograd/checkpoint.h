// Activation checkpointing: a part of the forward that is computed again inside the backward.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "lockstep/autograd/variable.h"

namespace lockstep {

/// What is checkpointed. Must compute the same whenever it is called with the same inputs: random
/// numbers it draws are not restored.
using Segment = std::function<Variable(std::span<const Variable>)>;

/// Runs `segment` without recording it. The backward runs it again, recording, and differentiates
/// that graph in a backward pass of its own, nested in the outer one.
///
/// So parameters inside the segment are invisible to whoever searches the outer graph, and receive
/// their gradient once for each checkpoint that uses them: both matter under DDP. Side effects
/// of the segment (running statistics) happen twice.
///
/// Requires: one to three inputs, the same as the segment takes.
/// Returns:  a variable outside the graph when no input requires a gradient, whatever the segment's
///           parameters require.
/// Source:   torch.utils.checkpoint.checkpoint with use_reentrant=True and
///           preserve_rng_state=False.
Variable checkpoint(Segment segment, std::vector<Variable> inputs);

}  // namespace lockstep
