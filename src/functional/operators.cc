#include "lockstep/functional/operators.h"

#include "lockstep/functional/functions.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {
namespace {

/// The number as a scalar of x's dtype.
Variable number_beside(const Variable& x, double number) {
  return Variable(Tensor::full(x.runtime(), Shape{}, x.data().dtype(), number));
}

}  // namespace

Variable operator+(const Variable& a, const Variable& b) { return add(a, b); }

Variable operator-(const Variable& a, const Variable& b) { return sub(a, b); }

Variable operator*(const Variable& a, const Variable& b) { return mul(a, b); }

Variable operator/(const Variable& a, const Variable& b) { return div(a, b); }

Variable operator+(const Variable& x, double number) { return add(x, number_beside(x, number)); }

Variable operator-(const Variable& x, double number) { return sub(x, number_beside(x, number)); }

Variable operator*(const Variable& x, double number) { return scale(x, number); }

Variable operator/(const Variable& x, double number) { return div(x, number); }

Variable operator+(double number, const Variable& x) { return x + number; }

Variable operator-(double number, const Variable& x) { return sub(number_beside(x, number), x); }

Variable operator*(double number, const Variable& x) { return scale(x, number); }

Variable operator/(double number, const Variable& x) { return scale(reciprocal(x), number); }

Variable operator-(const Variable& x) { return scale(x, -1.0); }

}  // namespace lockstep
