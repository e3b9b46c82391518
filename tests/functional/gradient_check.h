// Compares gradients with central differences.
#pragma once

#include <cmath>
#include <functional>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "lockstep/functional/functions.h"

#include "tests/support/plain_runtime.h"

namespace lockstep::testing {

/// A scalar function of several tensors, all f64.
using ScalarFunction = std::function<Variable(const std::vector<Variable>&)>;

inline double central_difference(const ScalarFunction& f,
                                 const std::vector<Variable>& at,
                                 double* element,
                                 double h) {
  const NoGradGuard no_grad(at[0].runtime());
  const double middle = *element;
  *element = middle + h;
  const double above = f(at).item();
  *element = middle - h;
  const double below = f(at).item();
  *element = middle;
  return (above - below) / (2.0 * h);
}

/// How far a derivative may be from the central difference at step h.
///
/// kExact: not at all. For functions of degree two in each element (or piecewise linear ones away
/// from the kinks) on dyadic inputs nothing rounds and the central difference is the derivative.
/// kSmooth: the truncation error, which by Richardson is a third of |D(h) - D(h/2)| to leading
/// order (taken whole), plus the rounding of two evaluations of `n_ops` operations each.
enum class Tolerance : std::uint8_t { kExact, kSmooth };

/// Returns: an empty text, or what differs. `inputs` all require gradients.
inline std::string compare_gradients(const ScalarFunction& f,
                                     const std::vector<Variable>& inputs,
                                     Tolerance tolerance,
                                     double n_ops = 0.0) {
  for (const Variable& input : inputs) input.set_grad(Tensor());
  const Variable result = f(inputs);
  result.backward();
  std::ostringstream complaint;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    for (std::int64_t i = 0; i < inputs[k].data().n_elems(); ++i) {
      double* element = inputs[k].data().data<double>() + i;
      const double h = std::ldexp(1.0, -10);
      const double coarse = central_difference(f, inputs, element, h);
      const double fine = central_difference(f, inputs, element, h / 2.0);
      const double rounding = n_ops * std::numeric_limits<double>::epsilon() *
                              (std::fabs(result.item()) + std::fabs(fine) + 1.0) / h;
      const double bound =
          tolerance == Tolerance::kExact ? 0.0 : std::fabs(coarse - fine) + rounding;
      const double gradient = inputs[k].grad().at(i);
      if (std::fabs(gradient - fine) <= bound) continue;
      complaint << "input " << k << "[" << i << "]: gradient " << gradient << ", differences "
                << fine << " +- " << bound << "\n";
    }
  }
  return complaint.str();
}

}  // namespace lockstep::testing
