#include <algorithm>

#include "lockstep/kernels/cpu_kernels.h"
#include "lockstep/sim/fiber/world.h"
#include "lockstep/sim/group/sim_group.h"
#include "lockstep/sim/strategy/strategies.h"

#include "tests/conformance/process_group_suite.h"

namespace lockstep::conformance {
namespace {

void run_once(const sim::GroupOptions& options,
              std::int32_t n_ranks,
              sim::Strategy& strategy,
              const Program& program) {
  sim::World world;
  sim::SimGroups groups(world, options);
  const auto kernels = make_cpu_kernels();
  Pool pool;
  const sim::WorldResult result =
      world.run({.n_ranks = n_ranks}, strategy, [&](sim::RankHandle& handle) {
        Runtime runtime(pool, *kernels, handle);
        program(*groups.world_group(handle, runtime));
      });
  if (result.first_failure) {
    std::rethrow_exception(result.ends[static_cast<std::size_t>(*result.first_failure)].exception);
  }
  EXPECT_FALSE(result.stuck.has_value()) << groups.explain(*result.stuck);
  EXPECT_EQ(pool.bytes_in_use(), 0);
}

// Each program under several schedules: a promise holds under all of them.
Backend simulator(std::int32_t n_ranks,
                  const std::string& order,
                  const std::string& pairing,
                  const std::string& fidelity = "rendezvous") {
  std::string name = "N" + std::to_string(n_ranks) + order + pairing;
  if (fidelity != "rendezvous") name += fidelity;
  std::erase_if(name, [](unsigned char c) { return std::isalnum(c) == 0; });
  const sim::GroupOptions options{.order = parse_reduction_order(order).value(),
                                  .pairing = parse_enum<sim::Pairing>(pairing).value(),
                                  .fidelity = parse_enum<sim::Fidelity>(fidelity).value()};
  return {name, n_ranks, [=](const Program& program) {
            run_once(options, n_ranks, *sim::make_round_robin(), program);
            run_once(options, n_ranks, *sim::make_run_to_block(), program);
            for (std::uint64_t seed = 0; seed < 3; ++seed) {
              run_once(options, n_ranks, *sim::make_random(seed), program);
            }
          }};
}

std::vector<Backend> simulators() {
  std::vector<Backend> all;
  for (std::int32_t n = 1; n <= 8; ++n) all.push_back(simulator(n, "rank", "strict"));
  for (const std::string order :
       {"gloo-ring", "pairwise", "nccl-ring", "nccl-ring@2", "nccl-tree", "nccl-tree@2"}) {
    for (const std::int32_t n : {2, 3, 4, 7, 8}) all.push_back(simulator(n, order, "strict"));
  }
  all.push_back(simulator(3, "nccl-ring:0,2,1", "strict"));
  all.push_back(simulator(3, "nccl-ring", "nccl_like"));
  all.push_back(simulator(4, "nccl-tree", "nccl_like"));
  all.push_back(simulator(3, "gloo-ring", "gloo_like"));
  all.push_back(simulator(4, "gloo-ring", "gloo_like"));
  all.push_back(simulator(3, "gloo-ring", "strict", "message"));
  all.push_back(simulator(4, "nccl-tree", "strict", "message"));
  return all;
}

INSTANTIATE_TEST_SUITE_P(Simulator,
                         ProcessGroupConformance,
                         ::testing::ValuesIn(promises_of(simulators())),
                         conformance_name);

}  // namespace
}  // namespace lockstep::conformance
