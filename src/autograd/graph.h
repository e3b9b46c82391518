// Questions about a recorded graph that need no backward pass.
#pragma once

#include <cstdint>
#include <span>

#include "lockstep/autograd/variable.h"

namespace lockstep {

/// Marks the leaves whose gradient a backward from `roots` would touch: reached[i] becomes 1 if
/// leaves[i] can be reached along the recorded edges, else 0. Allocates nothing.
///
/// Requires: reached.size() == leaves.size(); no backward runs on this rank.
/// Source: the search for unused parameters in PyTorch's reducer.
void find_reachable(std::span<const Variable> roots,
                    std::span<const Variable> leaves,
                    std::span<std::uint8_t> reached);

}  // namespace lockstep
