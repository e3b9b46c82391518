#include "lockstep/dist/loopback_group.h"
#include "lockstep/sim/fiber/world.h"
#include "lockstep/sim/strategy/strategies.h"
#include "lockstep/tensor/cpu_kernels.h"

#include "tests/conformance/process_group_suite.h"

namespace lockstep::conformance {
namespace {

struct Loopback {
  static constexpr std::int32_t kWorldSize = 1;

  static void run(const std::function<void(ProcessGroup&)>& program) {
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
  }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Loopback, ProcessGroupConformance, Loopback);

}  // namespace
}  // namespace lockstep::conformance
