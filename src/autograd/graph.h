// Questions about a recorded graph that need no backward pass.
#pragma once

#include <cstdint>
#include <span>

#include "lockstep/autograd/variable.h"
#include "lockstep/tensor/in_flight.h"

namespace lockstep {

/// Marks the leaves whose gradient a backward from `roots` would touch: reached[i] becomes 1 if
/// leaves[i] can be reached along the recorded edges, else 0. Allocates nothing.
///
/// Requires: reached.size() == leaves.size(); no backward runs on this rank.
/// Source: the search for unused parameters in PyTorch's reducer.
void find_reachable(std::span<const Variable> roots,
                    std::span<const Variable> leaves,
                    std::span<std::uint8_t> reached);

/// Whether all that the loss says of `node` is multiplied by `factor`: on each way from `root` to it
/// lies a value of one element, possibly its own, whose gradient is `factor` times the loss's, or the
/// gradient of the value of one element before it.
///
/// `slopes`: gradients that a backward from `root` had for values of one element.
/// Requires: no backward runs on this rank, and the graph is still there.
bool is_scaled(Node& root,
               const Node& node,
               double factor,
               std::span<const ExchangeWatch::Slope> slopes);

}  // namespace lockstep
