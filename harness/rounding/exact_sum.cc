#include "lockstep/harness/rounding/exact_sum.h"

#include <cmath>

namespace lockstep {

void ExactSum::add(double term) {
  double carried = term;
  std::vector<double> next;
  next.reserve(parts_.size() + 1);
  for (const double part : parts_) {
    // Knuth's two-sum: sum + error is carried + part exactly.
    const double sum = carried + part;
    const double virtual_part = sum - carried;
    const double error = (carried - (sum - virtual_part)) + (part - virtual_part);
    if (error != 0.0) next.push_back(error);
    carried = sum;
  }
  if (carried != 0.0) next.push_back(carried);
  parts_ = std::move(next);
}

void ExactSum::add_product(double a, double b) {
  const double product = a * b;
  add(product);
  add(std::fma(a, b, -product));
}

double ExactSum::rounded() const {
  // The last part is larger than all others together, and these are added smallest first.
  double sum = 0.0;
  for (const double part : parts_) sum += part;
  return sum;
}

double ExactSum::distance_from(double value) const {
  ExactSum difference = *this;
  difference.add(-value);
  return std::abs(difference.rounded());
}

}  // namespace lockstep
