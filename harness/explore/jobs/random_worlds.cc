#include "lockstep/harness/explore/jobs/random_worlds.h"

#include <algorithm>
#include <array>

#include "lockstep/base/check.h"
#include "lockstep/harness/explore/jobs/detail/random_draws.h"

namespace lockstep {

namespace {

/// Strategies that draw nothing, the simplest first.
constexpr std::array<std::string_view, 2> kUnseeded = {"run-to-block", "round-robin"};

auto find_unseeded(const std::string& schedule) {
  return std::find(kUnseeded.begin(), kUnseeded.end(), schedule);
}

std::string draw_schedule(detail::RandomDraws& draws) {
  std::string name = draws.one_of(
      {"run-to-block", "round-robin", "random", "random", "pct:depth=2", "pct:depth=3"});
  if (find_unseeded(name) != kUnseeded.end()) return name;
  const std::string mark = name.find(':') == std::string::npos ? ":" : ",";
  return name + mark + "seed=" + std::to_string(draws.below(1'000'000));
}

/// Smaller numbers of ranks, the smallest first.
std::vector<std::int32_t> smaller_sizes(std::int32_t ranks, std::int32_t least) {
  std::vector<std::int32_t> sizes;
  for (const std::int32_t size : {least, least + (ranks - least) / 2, ranks - 1}) {
    const bool is_new = sizes.empty() || size > sizes.back();
    if (size >= least && size < ranks && is_new) sizes.push_back(size);
  }
  return sizes;
}

}  // namespace

std::string draw_schedule(std::uint64_t seed) {
  detail::RandomDraws draws(seed, 1);
  return draw_schedule(draws);
}

std::vector<std::string> simpler_schedules(const std::string& schedule) {
  return std::vector<std::string>(kUnseeded.begin(), find_unseeded(schedule));
}

RunOptions draw_world(const WorldScope& scope, std::uint64_t seed) {
  LOCKSTEP_CHECK(scope.least >= 1 && scope.least <= scope.most,
                 "a world of " + std::to_string(scope.least) + " to " + std::to_string(scope.most) +
                     " ranks: from one up");
  detail::RandomDraws draws(seed, 2);
  RunOptions world;
  world.backend = "sim";
  const std::int32_t few = std::min(scope.most, std::max(scope.least, 4));
  const std::int32_t most = draws.chance(75) ? few : scope.most;
  world.ranks = static_cast<std::int32_t>(draws.between(scope.least, most));
  world.strategy = draw_schedule(draws);
  constexpr std::array<ReductionOrder::Kind, 5> kOrders = {ReductionOrder::kRank,
                                                           ReductionOrder::kGlooRing,
                                                           ReductionOrder::kPairwise,
                                                           ReductionOrder::kNcclRing,
                                                           ReductionOrder::kNcclTree};
  world.reduction_order =
      kOrders[static_cast<std::size_t>(draws.below(static_cast<std::int64_t>(kOrders.size())))];
  if (draws.chance(30)) world.fidelity = sim::Fidelity::kMessage;
  return world;
}

std::vector<RunOptions> simpler_worlds(const RunOptions& world, const WorldScope& scope) {
  std::vector<RunOptions> worlds;
  for (const std::int32_t ranks : smaller_sizes(world.ranks, scope.least)) {
    worlds.push_back(world);
    worlds.back().ranks = ranks;
  }
  for (const std::string& schedule : simpler_schedules(world.strategy)) {
    worlds.push_back(world);
    worlds.back().strategy = schedule;
  }
  if (world.reduction_order != ReductionOrder::kRank) {
    worlds.push_back(world);
    worlds.back().reduction_order = ReductionOrder::kRank;
  }
  if (world.fidelity != sim::Fidelity::kRendezvous) {
    worlds.push_back(world);
    worlds.back().fidelity = sim::Fidelity::kRendezvous;
  }
  return worlds;
}

std::vector<sim::Fault> draw_faults(sim::SwarmOptions scope, std::uint64_t seed) {
  detail::RandomDraws draws(seed, 3);
  scope.seed = static_cast<std::uint64_t>(draws.below(1'000'000'000));
  scope.n_faults = static_cast<std::int32_t>(draws.between(0, scope.n_faults));
  return sim::swarm(scope);
}

std::vector<std::vector<sim::Fault>> simpler_faults(const std::vector<sim::Fault>& faults) {
  std::vector<std::vector<sim::Fault>> plans;
  if (faults.empty()) return plans;
  plans.reserve(faults.size() + 1);
  if (faults.size() > 1) plans.emplace_back();
  for (std::size_t left_out = 0; left_out < faults.size(); ++left_out) {
    std::vector<sim::Fault>& fewer = plans.emplace_back(faults);
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(left_out));
  }
  return plans;
}

std::string describe(const RunOptions& world) {
  return std::to_string(world.ranks) + " ranks, " + world.strategy + ", " +
         std::string(world.reduction_order.name()) + ", " + std::string(name_of(world.fidelity));
}

}  // namespace lockstep
