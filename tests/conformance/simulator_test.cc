#include "lockstep/sim/fiber/world.h"
#include "lockstep/sim/group/sim_group.h"
#include "lockstep/sim/strategy/strategies.h"
#include "lockstep/tensor/cpu_kernels.h"

#include "tests/conformance/process_group_suite.h"

namespace lockstep::conformance {
namespace {

template <std::int32_t kRanks, ReductionOrder kOrder>
struct Simulator {
  static constexpr std::int32_t kWorldSize = kRanks;

  // Each program under several schedules: a promise holds under all of them.
  static void run(const std::function<void(ProcessGroup&)>& program) {
    for (const auto& strategy : {sim::make_round_robin(), sim::make_run_to_block()}) {
      run_once(*strategy, program);
    }
    for (std::uint64_t seed = 0; seed < 5; ++seed) run_once(*sim::make_random(seed), program);
  }

  static void run_once(sim::Strategy& strategy, const std::function<void(ProcessGroup&)>& program) {
    sim::World world;
    sim::GroupHub hub(world, {.order = kOrder});
    const auto kernels = make_cpu_kernels();
    Pool pool;
    const sim::WorldResult result =
        world.run({.n_ranks = kRanks}, strategy, [&](sim::RankHandle& handle) {
          Runtime runtime(pool, *kernels, handle);
          program(*hub.world_group(handle, runtime));
        });
    if (result.first_failure) {
      const auto rank = static_cast<std::size_t>(*result.first_failure);
      std::rethrow_exception(result.ends[rank].exception);
    }
    EXPECT_FALSE(result.stuck.has_value()) << hub.explain(*result.stuck);
    EXPECT_EQ(pool.bytes_in_use(), 0);
  }
};

constexpr ReductionOrder kRank = ReductionOrder::kRank;
constexpr ReductionOrder kGlooRing = ReductionOrder::kGlooRing;
constexpr ReductionOrder kPairwise = ReductionOrder::kPairwise;
using Simulators = ::testing::Types<Simulator<1, kRank>,
                                    Simulator<2, kRank>,
                                    Simulator<3, kRank>,
                                    Simulator<4, kRank>,
                                    Simulator<7, kRank>,
                                    Simulator<2, kGlooRing>,
                                    Simulator<3, kGlooRing>,
                                    Simulator<4, kGlooRing>,
                                    Simulator<7, kGlooRing>,
                                    Simulator<2, kPairwise>,
                                    Simulator<3, kPairwise>,
                                    Simulator<4, kPairwise>,
                                    Simulator<7, kPairwise>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Simulator, ProcessGroupConformance, Simulators);

}  // namespace
}  // namespace lockstep::conformance
