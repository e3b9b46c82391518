// In which order a real run added: the simulator under one order after another.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/reduction_order.h"
#include "lockstep/compare/compare.h"
#include "lockstep/harness/scenario/scenario.h"

namespace lockstep {

/// NCCL promises no order. Configured to use one ring and one channel it goes along 0, 1, 2, ...,
/// which comes first; other rings (all of them up to four ranks), several channels and trees are
/// within its rights. Of two ranks' sums, all orders have the same bits: one is enough.
std::vector<ReductionOrder> legal_nccl_orders(std::int32_t n_ranks);

/// The orders in which `backend` may add among the scenario's ranks, the expected one first: Gloo
/// has one. An order of NCCL's in the scenario comes before legal_nccl_orders.
std::vector<ReductionOrder> legal_orders(std::string_view backend, const Scenario& scenario);

/// The first order under which the simulated run is the real one.
struct OrderSearch {
  std::optional<ReductionOrder> order;  ///< Nothing: the real run is none that is legal.
  std::size_t n_tried = 0;
  bool expected = false;  ///< It is the first of those given.
  Comparison comparison;  ///< Under `order`, or under the first.
};

/// Runs `simulation` under each of `orders` until one gives the events of `real`.
/// Requires: at least one order.
/// Errors: the scenario does not run.
Result<OrderSearch> search_order(Scenario simulation,
                                 const MemoryTrace& real,
                                 std::span<const ReductionOrder> orders);

/// The verdict as text, for `backend`: "equal: ...", or the first difference and what it means.
std::string render(const OrderSearch& search, std::string_view backend, std::int32_t n_ranks);

}  // namespace lockstep
