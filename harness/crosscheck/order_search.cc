#include "lockstep/harness/crosscheck/order_search.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "lockstep/harness/run/run_scenario.h"

namespace lockstep {

namespace {

constexpr std::int32_t kMostRanksWithAllRings = 4;
constexpr std::int32_t kMostChannels = 8;

// Rings start at rank 0, so the others' orders are all there are.
void add_rings(std::int32_t n_ranks, std::vector<ReductionOrder>& orders) {
  if (n_ranks > kMostRanksWithAllRings) return;
  std::vector<std::int32_t> ring(static_cast<std::size_t>(n_ranks));
  std::iota(ring.begin(), ring.end(), 0);
  while (std::next_permutation(ring.begin() + 1, ring.end())) {
    orders.emplace_back(std::vector<std::vector<std::int32_t>>{ring});
  }
}

// NCCL uses fewer channels than it may where a buffer is small: each number occurs. The channels of one
// node's graph come in pairs, one of each tree, and are repeated if more are wanted.
void add_cuts(NcclProtocol protocol, std::vector<ReductionOrder>& orders) {
  const auto add = [&](ReductionOrder::Kind kind, const NcclCuts& cuts) {
    const ReductionOrder order(kind, cuts);
    if (std::find(orders.begin(), orders.end(), order) == orders.end()) orders.push_back(order);
  };
  for (std::int32_t n = 1; n <= kMostChannels; ++n) {
    add(ReductionOrder::kNcclRing, {.n_channels = n, .protocol = protocol});
  }
  for (std::int32_t n = 1; n <= kMostChannels; ++n) {
    for (const std::int32_t period : {2, 4, 8}) {
      add(ReductionOrder::kNcclTree,
          {.n_channels = n, .protocol = protocol, .tree_period = period});
    }
  }
}

Scenario simulation_of(Scenario scenario, const ReductionOrder& order) {
  scenario.session.group.order = order;
  // What one process would have done says nothing about two backends.
  scenario.session.policy.allow.emplace_back("single-process-equal");
  scenario.expect.values.clear();
  return scenario;
}

}  // namespace

std::vector<ReductionOrder> legal_nccl_orders(std::int32_t n_ranks) {
  std::vector<ReductionOrder> orders = {ReductionOrder::kNcclRing};
  if (n_ranks <= 2) return orders;
  add_rings(n_ranks, orders);
  add_cuts(NcclProtocol::kSimple, orders);
  add_cuts(NcclProtocol::kLl, orders);
  return orders;
}

std::vector<ReductionOrder> legal_orders(std::string_view backend, const Scenario& scenario) {
  if (backend != "nccl") return {ReductionOrder::kGlooRing};
  std::vector<ReductionOrder> orders = legal_nccl_orders(scenario.n_ranks);
  const ReductionOrder& said = scenario.session.group.order;
  if (!said.is_nccl()) return orders;
  std::erase(orders, said);
  orders.insert(orders.begin(), said);
  return orders;
}

Result<OrderSearch> search_order(Scenario simulation,
                                 const MemoryTrace& real,
                                 std::span<const ReductionOrder> orders) {
  OrderSearch search;
  for (const ReductionOrder& order : orders) {
    simulation = simulation_of(std::move(simulation), order);
    const Result<ScenarioResult> simulated = run_scenario(simulation, {});
    if (!simulated.ok()) return simulated.error();
    Comparison comparison = compare_runs(*simulated.value().session.trace, real);
    const bool equal = !comparison.first;
    if (equal || search.n_tried == 0) search.comparison = std::move(comparison);
    ++search.n_tried;
    if (!equal) continue;
    search.order = order;
    search.expected = search.n_tried == 1;
    break;
  }
  return search;
}

std::string render(const OrderSearch& search, std::string_view backend, std::int32_t n_ranks) {
  const std::string real(backend);
  if (!search.order) {
    std::string text = "first difference: " + render(*search.comparison.first, "sim", real);
    if (search.n_tried > 1) {
      text += "\nimpossible: none of the " + std::to_string(search.n_tried) + " orders in which " +
              real + " may add gives these bits";
    }
    return text;
  }
  std::string text = "equal: " + std::to_string(search.comparison.n_events) + " events on " +
                     std::to_string(n_ranks) + " ranks, sim (" + std::string(search.order->name()) +
                     ") and " + real;
  if (!search.expected) text += "; inside the legal set, not the expected order";
  if (real == "nccl" && n_ranks == 2) {
    text += "; two ranks give the same sums in every order: use three to see one";
  }
  return text;
}

}  // namespace lockstep
