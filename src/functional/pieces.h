// Variables put together from others, and pieces taken out of them.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/autograd/variable.h"

namespace lockstep {

/// All `parts`, one after the other along `dim`. Of several floating dtypes the result has the one
/// that PyTorch promotes them to.
///
/// Shapes: equal but for their size in `dim`.
/// Requires: at least one part.
/// Source: torch.cat.
Variable cat(const std::vector<Variable>& parts, std::size_t dim = 0);

/// The same along a dimension of its own: the result has one more, as long as there are parts.
///
/// Shapes: all equal, of at most three dimensions.
/// Source: torch.stack.
Variable stack(const std::vector<Variable>& parts, std::size_t dim = 0);

/// Positions [first, first + n) of `dim`. Along the first dimension it shares memory with `x`, as all of
/// PyTorch's slices do; along others it is a copy.
/// Source: torch.narrow.
Variable slice(const Variable& x, std::size_t dim, std::int64_t first, std::int64_t n);

/// `x` in memory of its own, in the graph: x.detach() and x.data().clone() leave it.
/// Source: torch.clone.
Variable clone(const Variable& x);

}  // namespace lockstep
