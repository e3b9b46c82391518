#include "lockstep/harness/whatif/cost_fit.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lockstep/sim/net/cost_model.h"

namespace lockstep {

namespace {

/// took = latency * messages + ns_per_byte * bytes.
struct Equation {
  double messages = 0.0;
  double bytes = 0.0;
  double took = 0.0;
};

/// The cost model is linear: its value for a latency alone and for a bandwidth alone are the two
/// coefficients. Large units, since it counts whole nanoseconds.
Equation equation_of(const SizedCalls& call, const ReductionOrder& order) {
  constexpr std::int64_t kLatency = 1'000'000'000;
  constexpr double kGbPerS = 1e-6;
  std::vector<std::int32_t> members(static_cast<std::size_t>(call.n_ranks));
  std::iota(members.begin(), members.end(), 0);
  const sim::OperationSize size{.op = call.op, .n_bytes = call.n_bytes, .n_ranks = call.n_ranks};
  sim::NetOptions late;
  late.intra.latency_ns = kLatency;
  sim::NetOptions narrow;
  narrow.intra.gb_per_s = kGbPerS;
  const auto messages = static_cast<double>(sim::time_of(size, members, order, late).ns);
  const auto bytes = static_cast<double>(sim::time_of(size, members, order, narrow).ns);
  const auto n = static_cast<double>(call.n);
  return {.messages = n * messages / static_cast<double>(kLatency), .bytes = n * bytes * kGbPerS};
}

Equation equation_of(const MeasuredCalls& measured, const ReductionOrder& order) {
  Equation sum{.took = measured.took_ns};
  for (const SizedCalls& call : measured.calls) {
    const Equation one = equation_of(call, order);
    sum.messages += one.messages;
    sum.bytes += one.bytes;
  }
  return sum;
}

struct Parts {
  double latency = 0.0;
  double ns_per_byte = 0.0;
};

/// Of one unknown: minimises the sum of (x * factor / took - 1)^2.
double fit_alone(const std::vector<Equation>& equations, double Equation::*factor) {
  double square = 0.0;
  double linear = 0.0;
  for (const Equation& each : equations) {
    const double x = each.*factor / each.took;
    square += x * x;
    linear += x;
  }
  return square > 0.0 ? linear / square : 0.0;
}

/// Of both, by the normal equations.
Parts fit_both(const std::vector<Equation>& equations) {
  double mm = 0.0;
  double mb = 0.0;
  double bb = 0.0;
  double m = 0.0;
  double b = 0.0;
  for (const Equation& each : equations) {
    const double messages = each.messages / each.took;
    const double bytes = each.bytes / each.took;
    mm += messages * messages;
    mb += messages * bytes;
    bb += bytes * bytes;
    m += messages;
    b += bytes;
  }
  const double determinant = mm * bb - mb * mb;
  // Equations that are multiples of one another leave only rounding errors of the products.
  if (determinant <= 1e-12 * mm * bb) return {0.0, fit_alone(equations, &Equation::bytes)};
  const Parts parts{(m * bb - b * mb) / determinant, (b * mm - m * mb) / determinant};
  if (parts.latency < 0.0) return {0.0, fit_alone(equations, &Equation::bytes)};
  if (parts.ns_per_byte < 0.0) return {fit_alone(equations, &Equation::messages), 0.0};
  return parts;
}

}  // namespace

Result<LinkFit> fit_link(std::span<const MeasuredCalls> measured, const ReductionOrder& order) {
  std::vector<Equation> equations;
  for (const MeasuredCalls& each : measured) {
    if (each.took_ns <= 0.0) continue;
    const Equation equation = equation_of(each, order);
    if (equation.messages > 0.0 || equation.bytes > 0.0) equations.push_back(equation);
  }
  if (equations.empty()) {
    return Error{"no collective of two or more ranks that takes time: a link cannot be fitted", {}};
  }
  const Parts parts = fit_both(equations);
  LinkFit fit{.latency_ns = std::llround(parts.latency),
              .gb_per_s = parts.ns_per_byte > 0.0 ? 1.0 / parts.ns_per_byte : 0.0,
              .n_measured = equations.size()};
  for (const Equation& each : equations) {
    const double fitted = parts.latency * each.messages + parts.ns_per_byte * each.bytes;
    fit.worst = std::max(fit.worst, std::abs(fitted - each.took) / each.took);
  }
  return fit;
}

}  // namespace lockstep
