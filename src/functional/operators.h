// Formulas as they are written: loss = 0.5 * (a - b) * (a - b) + 1.0 / x.
#pragma once

#include "lockstep/autograd/variable.h"

namespace lockstep {

/// Element by element; two variables are broadcast and promoted as add, sub, mul and div do it.
///
///     const Variable centred = x - mean(x, 0);
///     const Variable loss = mean(centred * centred) + 0.01 * penalty;
///
/// A number is rounded to the other operand's dtype first.
/// Errors: ContractViolation with PyTorch's text for shapes that do not go together.
/// Source: torch.Tensor; a number divided by a tensor is its reciprocal times the number, which rounds twice.
Variable operator+(const Variable& a, const Variable& b);
Variable operator-(const Variable& a, const Variable& b);
Variable operator*(const Variable& a, const Variable& b);
Variable operator/(const Variable& a, const Variable& b);
Variable operator+(const Variable& x, double number);
Variable operator-(const Variable& x, double number);
Variable operator*(const Variable& x, double number);
Variable operator/(const Variable& x, double number);
Variable operator+(double number, const Variable& x);
Variable operator-(double number, const Variable& x);
Variable operator*(double number, const Variable& x);
Variable operator/(double number, const Variable& x);
Variable operator-(const Variable& x);

}  // namespace lockstep
