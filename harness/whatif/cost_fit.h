// Latency and bandwidth of a link, from how long collectives took on it.
//
// The time of a collective on idle links is alpha * a + S / B * b with the counts of messages a and of
// bytes b that its order of summation gives (sim/net/cost_model.h): linear in alpha and 1 / B. Both
// are fitted to measured times by least squares of the relative errors, since calls of a microsecond
// and of a second are known equally well.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/reduction_order.h"
#include "lockstep/harness/timing/step_calls.h"

namespace lockstep {

/// How long some collectives took on all their ranks, one after the other.
struct MeasuredCalls {
  std::vector<SizedCalls> calls;
  double took_ns = 0.0;  ///< Of all of them together, each from the arrival of its last rank.
};

/// A fitted link.
struct LinkFit {
  std::int64_t latency_ns = 0;
  double gb_per_s = 0.0;       ///< 0: the times do not grow with the bytes.
  std::size_t n_measured = 0;  ///< Measurements that it rests on.
  double worst = 0.0;          ///< Largest relative error of the fit: 0.25 = 25 %.
};

/// Where all measurements are multiples of one, the two parts cannot be separated: the latency is 0 then. Neither part
/// is below 0: the other one is fitted alone instead.
/// Errors: no measurement of calls on two or more ranks that takes time.
/// Deterministic: a function of the measurements' order and values.
Result<LinkFit> fit_link(std::span<const MeasuredCalls> measured, const ReductionOrder& order);

}  // namespace lockstep
