#include "lockstep/laws/rules/detail/accumulation.h"

#include <algorithm>
#include <cmath>

#include "lockstep/laws/rules/detail/precision.h"

namespace lockstep::laws {

namespace {

SketchSum sum_of(const SketchSum& a, const SketchSum& b) {
  SketchSum sum = a;
  sum.add(b);
  return sum;
}

}  // namespace

void SketchSum::add(const Sketch& sketch, std::uint64_t own) {
  if (n_terms == 0) return set(sketch, own);
  sum.l1 += sketch.l1;
  for (std::size_t j = 0; j < sum.sums.size(); ++j) sum.sums[j] += sketch.sums[j];
  ++n_terms;
}

void SketchSum::add(const SketchSum& other) {
  if (other.n_terms == 0) return;
  const std::int32_t n_before = n_terms;
  add(other.sum, other.digest);
  n_terms = n_before + other.n_terms;
}

void SketchSum::scale(double factor) {
  if (factor == 1.0 || n_terms == 0) return;
  sum.l1 *= std::abs(factor);
  for (double& one : sum.sums) one *= factor;
  ++n_terms;  // Its rounding is that of one more operation, and its digest is another one.
}

bool is_sum(const Found& found, const SketchSum& expected, bool exact) {
  if (expected.n_terms == 1 && found.digest == expected.digest) return true;
  const Sketch& sketch = *found.sketch;
  // What overflowed says nothing.
  if (!is_finite(expected.sum)) return true;
  if (!is_finite(sketch)) return false;
  const double n_operations = std::max(expected.n_terms, 1);
  const double unit = precision_of(found.dtype).unit;
  const double l1 = expected.sum.l1;
  const double bound =
      exact ? 0.0
            : n_operations * unit * l1 + 4 * static_cast<double>(found.n_elems) * 0x1p-53 * l1;
  for (std::size_t j = 0; j < sketch.sums.size(); ++j) {
    if (!(std::abs(sketch.sums[j] - expected.sum.sums[j]) <= bound)) return false;
  }
  return true;
}

void Accumulation::contribute(const Sketch& sketch, std::uint64_t digest) {
  before_last = added;
  last.set(sketch, digest);
  added.add(sketch, digest);
}

void Accumulation::become(const Sketch& sketch, std::uint64_t digest) {
  base.set(sketch, digest);
  base_is_old = false;
  known = true;
  added.clear();
  last.clear();
  before_last.clear();
}

void Accumulation::step() {
  base.add(added);
  base_is_old = base.n_terms > 0;
  added.clear();
  last.clear();
  before_last.clear();
}

void Accumulation::be_left_as(const Sketch& sketch, std::uint64_t digest) {
  become(sketch, digest);
  base_is_old = true;
}

void Accumulation::clear() { *this = {}; }

void Accumulation::scale(double factor) {
  base.scale(factor);
  added.scale(factor);
  last.scale(factor);
  before_last.scale(factor);
}

template <typename Is>
std::optional<Miscount> Accumulation::miscounted_from(const std::array<SketchSum, 2>& starts,
                                                      const Is& is) const {
  for (const SketchSum& start : starts) {
    if (is(sum_of(sum_of(start, added), last))) return Miscount::kTwice;
    if (is(sum_of(start, last)) || is(sum_of(start, before_last))) return Miscount::kLost;
  }
  return std::nullopt;
}

std::optional<Miscount> Accumulation::check(const Found& found, const Rules& rules) const {
  // What overflowed says nothing.
  if (!known || found.sketch == nullptr || !is_finite(*found.sketch)) return std::nullopt;
  const auto is = [&](const SketchSum& sum) { return is_sum(found, sum, rules.exact); };
  const bool reduced_before = base.n_terms > 0 && !base_is_old;
  if (is(added) && !(rules.strict && reduced_before)) return std::nullopt;
  if (is(sum_of(base, added))) {
    const bool old_counts = base_is_old && base.sum.l1 > 0.0 && added.n_terms > 0;
    return old_counts ? std::optional(Miscount::kNotCleared) : std::nullopt;
  }
  if (!rules.immediate || added.n_terms < 2) return std::nullopt;
  if (!rules.strict && is(last)) return std::nullopt;
  return miscounted_from({base, SketchSum()}, is);
}

bool Accumulation::explains(const Found& found) const {
  if (!known || found.sketch == nullptr || !is_finite(*found.sketch)) return true;
  return is_sum(found, added, false) || is_sum(found, sum_of(base, added), false);
}

bool Accumulation::is_unscaled_early(const Found& found, double scale) const {
  SketchSum early = sum_of(base, before_last);
  if (!known || early.n_terms == 0 || last.n_terms == 0) return false;
  early.scale(1.0 / scale);
  early.add(last);
  return is_sum(found, early, false);
}

}  // namespace lockstep::laws
