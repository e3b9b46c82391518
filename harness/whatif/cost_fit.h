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
#include "lockstep/tensor/dtype.h"
#include "lockstep/trace/signature.h"

namespace lockstep {

/// How long one collective took on all its ranks together.
struct MeasuredCall {
  CollectiveOp op = CollectiveOp::kAllReduce;
  std::int64_t n_bytes = 0;  ///< As nccl-tests counts them (timing/call_times.h).
  std::int32_t n_ranks = 0;
  double took_ns = 0.0;  ///< From the arrival of the last rank.
};

/// A fitted link.
struct LinkFit {
  std::int64_t latency_ns = 0;
  double gb_per_s = 0.0;    ///< 0: the times do not grow with the bytes.
  std::size_t n_calls = 0;  ///< Measurements that it rests on.
  double worst = 0.0;       ///< Largest relative error of the fit: 0.25 = 25 %.
};

/// Where all calls have one size, the two parts cannot be separated: the latency is 0 then. Neither part
/// is below 0: the other one is fitted alone instead.
/// Errors: no call on two or more ranks that takes time.
/// Deterministic: a function of the calls' order and values.
Result<LinkFit> fit_link(std::span<const MeasuredCall> calls, const ReductionOrder& order);

}  // namespace lockstep
