#include "lockstep/harness/rounding/result_side.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace lockstep {

namespace {

struct Narrower {
  ElementType type;
  Unless nearest;
  Unless other;  ///< Rounding, but not to nearest.
};

constexpr std::array kNarrower = {
    Narrower{ElementType::kF32, Unless::kInF32, Unless::kInF32NotNearest},
    Narrower{ElementType::kF16, Unless::kInF16, Unless::kInF16NotNearest},
    Narrower{ElementType::kBF16, Unless::kInBF16, Unless::kInBF16NotNearest}};

Unless unless_of(const Arithmetic& how) {
  if (!how.converts) return Unless::kNotNearest;
  const auto narrower = *std::ranges::find(kNarrower, how.format.type(), &Narrower::type);
  return how.nearest ? narrower.nearest : narrower.other;
}

bool all_finite(std::span<const double> values) {
  return std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
}

}  // namespace

std::vector<Arithmetic> other_ways(const FloatFormat& format) {
  std::vector<Arithmetic> ways;
  for (const Narrower& each : kNarrower) {
    if (size_of(each.type) >= size_of(format.type())) continue;
    ways.push_back({.format = *FloatFormat::of(each.type), .converts = true});
  }
  ways.push_back({.format = format, .nearest = false});
  for (const Narrower& each : kNarrower) {
    if (size_of(each.type) >= size_of(format.type())) continue;
    ways.push_back({.format = *FloatFormat::of(each.type), .converts = true, .nearest = false});
  }
  return ways;
}

SideJudge::SideJudge(std::int32_t n, const FloatFormat& format, const Combination& combination)
    : n_(n),
      arithmetic_{.format = format},
      combination_(combination),
      orders_(n, format, combination),
      suspicion_(n, arithmetic_, combination) {
  for (const Arithmetic& how : other_ways(format)) conditions_.push_back({unless_of(how), how});
}

/// Whether a result is a number of a narrower type, or was made of one by scaling it in its own.
bool SideJudge::comes_from(const FloatFormat& narrow, double result) const {
  if (!std::isfinite(result) || narrow.round(result) == result) return true;
  if (combination_.kind == ResultKind::kSum) return false;
  const auto n = static_cast<double>(n_);
  const double factor = combination_.factor(static_cast<std::size_t>(n_));
  const double sum = narrow.round(result / factor);
  const bool divided =
      combination_.kind == ResultKind::kMean && arithmetic_.format.divide(sum, n) == result;
  return divided || arithmetic_.format.multiply(sum, arithmetic_.format.round(factor)) == result;
}

/// Forgets a narrower type as soon as a result cannot come from it.
void SideJudge::drop_types(double result) {
  std::erase_if(conditions_, [&](const Condition& condition) {
    return condition.arithmetic.converts && !comes_from(condition.arithmetic.format, result);
  });
}

/// Forgets the conditions under which a result is as impossible as without them. One that is possible
/// without them is possible with them: their intervals are wider.
void SideJudge::drop_conditions(std::span<const double> contributions, double result) {
  std::erase_if(conditions_, [&](const Condition& condition) {
    return !is_possible(contributions, condition.arithmetic, combination_, result);
  });
}

void SideJudge::add_outside(std::span<const double> contributions, double result, double distance) {
  ++side_.n_outside;
  drop_conditions(contributions, result);
  const double ratio =
      bound_.radius > 0.0 ? distance / bound_.radius : std::numeric_limits<double>::infinity();
  const bool worse = !worst_ || ratio > side_.ratio;
  if (ratio > side_.ratio) {
    side_.ratio = ratio;
    side_.worst = element_;
  }
  if (!worse) return;
  worst_ = ImpossibleElement{.element = element_,
                             .result = result,
                             .contributions = {contributions.begin(), contributions.end()},
                             .bound = bound_,
                             .distance = distance,
                             .looks_like = {}};
}

void SideJudge::judge_finite(std::span<const double> contributions, double result) {
  bound_ = bound_of(contributions, arithmetic_, combination_);
  if (!std::isfinite(result) && bound_.may_overflow) return;
  const double distance = distance_from_exact(contributions, combination_, result);
  if (!(distance <= bound_.radius)) {
    add_outside(contributions, result, distance);
    suspicion_.add(contributions, result);
    return;
  }
  const double ratio = distance == 0.0 ? 0.0 : distance / bound_.radius;
  if (ratio <= side_.ratio) return;
  side_.ratio = ratio;
  side_.worst = element_;
}

void SideJudge::add(std::span<const double> contributions, double result) {
  ++element_;
  orders_.add(contributions, result);
  drop_types(result);
  if (all_finite(contributions)) {
    judge_finite(contributions, result);
  } else if (!is_possible(contributions, arithmetic_, combination_, result)) {
    bound_ = {};
    add_outside(contributions, result, std::numeric_limits<double>::infinity());
  }
}

ResultSide SideJudge::side() const {
  ResultSide side = side_;
  side.runs = orders_.runs();
  if (side.n_outside > 0 && !conditions_.empty()) side.only_if = conditions_.front().unless;
  return side;
}

std::optional<ImpossibleElement> SideJudge::impossible() const {
  if (!worst_ || !conditions_.empty()) return std::nullopt;
  ImpossibleElement worst = *worst_;
  worst.looks_like = suspicion_.text();
  return worst;
}

}  // namespace lockstep
