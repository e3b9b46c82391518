#include "lockstep/comm/loopback_group.h"
#include "lockstep/kernels/cpu_kernels.h"
#include "lockstep/sim/fiber/world.h"
#include "lockstep/sim/strategy/strategies.h"

#include "tests/conformance/process_group_suite.h"

namespace lockstep::conformance {
namespace {

Backend loopback() {
  return {"Alone", 1, [](const Program& program) {
            sim::World world;  // For its Host only.
            const auto strategy = sim::make_round_robin();
            const auto kernels = make_cpu_kernels();
            Pool pool;
            const sim::WorldResult result =
                world.run({.n_ranks = 1}, *strategy, [&](sim::RankHandle& handle) {
                  Runtime runtime(pool, *kernels, handle);
                  program(*make_loopback_group(runtime));
                });
            if (result.first_failure) std::rethrow_exception(result.ends[0].exception);
          }};
}

INSTANTIATE_TEST_SUITE_P(Loopback,
                         ProcessGroupConformance,
                         ::testing::ValuesIn(promises_of({loopback()})),
                         conformance_name);

}  // namespace
}  // namespace lockstep::conformance
