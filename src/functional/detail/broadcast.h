// How element-wise operations bring operands of different shapes together.
#pragma once

#include <utility>

#include "lockstep/autograd/variable.h"
#include "lockstep/tensor/shape.h"

namespace lockstep::detail {

/// The shape of a result: sizes of 1, and those that are missing on the left, take the other operand's.
/// Errors: ContractViolation with PyTorch's text for sizes that differ otherwise.
/// Source: PyTorch's broadcasting semantics.
Shape broadcast(const Shape& a, const Shape& b);

/// Both operands in that shape.
std::pair<Variable, Variable> broadcast(const Variable& a, const Variable& b);

}  // namespace lockstep::detail
