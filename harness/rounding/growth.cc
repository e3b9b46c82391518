#include "lockstep/harness/rounding/growth.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include <boost/math/distributions/students_t.hpp>

namespace lockstep {

namespace {

/// Storing the parameters rounds in both runs.
constexpr double kStored = 2.0;
constexpr double kFalseAlarms = 1e-3;
constexpr std::size_t kFewestFactors = 4;
/// Norms are computed in doubles: factors closer than this are one.
constexpr double kOwnRounding = 1e-9;

double mean_of(std::span<const double> values) {
  double sum = 0.0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double variance_of(std::span<const double> values) {
  const double mean = mean_of(values);
  double sum = 0.0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return sum / static_cast<double>(values.size() - 1) + kOwnRounding * kOwnRounding;
}

/// The chance that the largest of m alike normal values is this far above the others.
double chance_of(double value, std::span<const double> others) {
  const auto n = static_cast<double>(others.size());
  const double t = (value - mean_of(others)) / std::sqrt(variance_of(others) * (1.0 + 1.0 / n));
  const boost::math::students_t distribution(n - 1.0);
  return std::min(1.0, (n + 1.0) * boost::math::cdf(boost::math::complement(distribution, t)));
}

/// Least squares of log(distance) over the steps that differ.
std::optional<double> fitted_factor(std::span<const SeriesStep> steps) {
  std::vector<std::pair<double, double>> points;
  for (const SeriesStep& each : steps) {
    const bool counts = each.distance > 0.0 && std::isfinite(each.distance);
    if (counts) points.emplace_back(static_cast<double>(each.step), std::log(each.distance));
  }
  if (points.size() < 2) return std::nullopt;
  double x = 0.0;
  double y = 0.0;
  for (const auto& [step, log] : points) {
    x += step / static_cast<double>(points.size());
    y += log / static_cast<double>(points.size());
  }
  double xy = 0.0;
  double xx = 0.0;
  for (const auto& [step, log] : points) {
    xy += (step - x) * (log - y);
    xx += (step - x) * (step - x);
  }
  return std::exp(xy / xx);
}

/// A factor per step, as its logarithm; and whether the step rose by more than storing explains.
struct LoggedFactor {
  std::int64_t step = 0;
  double log = 0.0;
  bool rises = false;
};

std::vector<LoggedFactor> factors_of(std::span<const SeriesStep> steps) {
  std::vector<LoggedFactor> factors;
  for (std::size_t i = 1; i < steps.size(); ++i) {
    const SeriesStep& before = steps[i - 1];
    const SeriesStep& after = steps[i];
    if (!std::isfinite(after.distance)) break;
    const auto n_steps = static_cast<double>(std::max<std::int64_t>(1, after.step - before.step));
    const double log = std::log((after.distance + kStored) / (before.distance + kStored));
    factors.push_back({after.step, log / n_steps, after.distance > before.distance + kStored});
  }
  return factors;
}

std::optional<Jump> largest_factor(std::span<const SeriesStep> steps) {
  const std::vector<LoggedFactor> factors = factors_of(steps);
  if (factors.size() < kFewestFactors) return std::nullopt;
  const auto largest = std::ranges::max_element(factors, [](const auto& a, const auto& b) {
    return a.rises != b.rises ? b.rises : a.log < b.log;
  });
  if (!largest->rises) return std::nullopt;
  std::vector<double> others;
  for (const LoggedFactor& each : factors) {
    if (each.step != largest->step) others.push_back(each.log);
  }
  return Jump{.step = largest->step,
              .factor = std::exp(largest->log),
              .others = std::exp(mean_of(others)),
              .chance = chance_of(largest->log, others)};
}

/// How far apart storing alone may have brought them by the first step that differs.
double stored_until(std::span<const SeriesStep> steps, std::size_t begins) {
  const std::int64_t since = begins == 0 ? 0 : steps[begins - 1].step;
  return kStored * static_cast<double>(std::max<std::int64_t>(1, steps[begins].step - since));
}

using ParametersByName = std::map<std::string, std::span<const double>, std::less<>>;
using Step = std::pair<std::int32_t, std::int32_t>;  // Attempt, step.

std::map<Step, ParametersByName> parameters_of(const MemoryTrace& trace) {
  std::map<Step, ParametersByName> steps;
  for (const Event& event : trace.events(Rank{0})) {
    const auto* values = std::get_if<ValueEvent>(&event.body);
    if (values == nullptr || values->point != ValuePoint::kStep) continue;
    const std::string_view name = trace.names().text(values->tensor);
    const bool of_the_optimizer = name.find('/') != std::string_view::npos;
    if (of_the_optimizer) continue;
    steps[{event.at.attempt, event.at.opt}].insert_or_assign(std::string(name), values->values);
  }
  return steps;
}

/// The types of parameters, which are those of their gradients.
std::map<std::string, FloatFormat, std::less<>> formats_of(const MemoryTrace& trace) {
  std::map<std::string, FloatFormat, std::less<>> formats;
  for (const Event& event : trace.events(Rank{0})) {
    const auto* grad = std::get_if<GradEvent>(&event.body);
    const auto format = grad == nullptr ? std::nullopt : FloatFormat::of(grad->dtype);
    if (!format) continue;
    for (const NameId name : trace.names().layout(grad->layout)) {
      formats.insert_or_assign(std::string(trace.names().text(name)), *format);
    }
  }
  return formats;
}

}  // namespace

void StepDistance::add(
    std::string_view tensor, const FloatFormat& format, std::int64_t element, double a, double b) {
  ++found_.n_elements;
  if (a == b || (std::isnan(a) && std::isnan(b))) {
    if (std::isfinite(a)) size_ += a * a;
    return;
  }
  ++found_.n_different;
  const bool is_number = !std::isnan(a) && !std::isnan(b);
  const std::uint64_t ulps =
      is_number ? format.ulps_between(a, b) : std::numeric_limits<std::uint64_t>::max();
  if (ulps > found_.ulps) {
    found_.ulps = ulps;
    found_.tensor = std::string(tensor);
    found_.element = element;
  }
  const double apart = (a - b) / format.unit_roundoff();
  difference_ += std::isfinite(apart) ? apart * apart : std::numeric_limits<double>::infinity();
  if (std::isfinite(a)) size_ += a * a;
}

SeriesStep StepDistance::take() {
  if (difference_ > 0.0) found_.distance = std::sqrt(difference_ / size_);
  return std::move(found_);
}

Growth growth_of(std::vector<SeriesStep> steps) {
  Growth growth;
  growth.steps = std::move(steps);
  const auto first = std::ranges::find_if(
      growth.steps, [](const SeriesStep& each) { return each.n_different > 0; });
  if (first == growth.steps.end()) return growth;
  growth.begins = static_cast<std::size_t>(first - growth.steps.begin());
  const std::span<const SeriesStep> apart = std::span(growth.steps).subspan(*growth.begins);
  growth.factor = fitted_factor(apart);
  growth.largest = largest_factor(apart);
  const bool is_infinite = std::ranges::any_of(
      apart, [](const SeriesStep& each) { return !std::isfinite(each.distance); });
  const bool jumps = growth.largest && growth.largest->chance < kFalseAlarms;
  if (jumps || (is_infinite && std::isfinite(apart.front().distance))) {
    growth.verdict = GrowthVerdict::kJump;
  } else if (!(apart.front().distance <= stored_until(growth.steps, *growth.begins))) {
    growth.verdict = GrowthVerdict::kLargeStart;
  } else {
    growth.verdict = GrowthVerdict::kGrowth;
  }
  return growth;
}

std::vector<SeriesStep> steps_of_traces(const MemoryTrace& left, const MemoryTrace& right) {
  const std::map<Step, ParametersByName> a = parameters_of(left);
  const std::map<Step, ParametersByName> b = parameters_of(right);
  const auto formats = formats_of(left);
  std::vector<SeriesStep> steps;
  for (const auto& [step, tensors] : a) {
    const auto other = b.find(step);
    if (other == b.end() || step.first != 0) continue;
    StepDistance distance(step.second + 1);
    for (const auto& [name, values] : tensors) {
      const auto twin = other->second.find(name);
      const auto format = formats.find(name);
      if (twin == other->second.end() || format == formats.end()) continue;
      for (std::size_t i = 0; i < std::min(values.size(), twin->second.size()); ++i) {
        distance.add(
            name, format->second, static_cast<std::int64_t>(i), values[i], twin->second[i]);
      }
    }
    steps.push_back(distance.take());
  }
  return steps;
}

}  // namespace lockstep
