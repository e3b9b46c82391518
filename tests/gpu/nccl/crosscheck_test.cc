// Whole training runs in the simulator and over NCCL emulated on the CPU, event by event. Not a
// GPU.
#include <fstream>

#include "lockstep/formats/jsonl.h"
#include "lockstep/harness/crosscheck/bit_flip.h"
#include "lockstep/harness/crosscheck/order_search.h"
#include "lockstep/harness/format/load.h"
#include "lockstep/harness/run/run_scenario.h"
#include "lockstep/real/session/rank_session.h"

#include "tests/support/emulated_ranks.h"

namespace lockstep {
namespace {

using testing::Emulation;
using testing::TempFolder;

// A backend is a plain function; it has to find its emulation here.
const Emulation*& emulation_in_use() {
  static const Emulation* emulation = nullptr;
  return emulation;
}

Result<std::unique_ptr<ProcessGroup>> connect_emulated(const BackendOptions& options,
                                                       Runtime& runtime) {
  return nccl::connect(emulation_in_use()->gpu(options.place.rank),
                       {.rank = options.place.rank,
                        .size = options.place.world_size,
                        .rendezvous = options.rendezvous},
                       runtime);
}

Scenario scenario_of(const std::string& job, std::int32_t n_ranks) {
  const std::string path =
      std::string(LOCKSTEP_SOURCE_DIR) + "/tests/harness/crosscheck/" + job + ".toml";
  Result<Scenario> scenario =
      load_scenario(path, "", {{"world.ranks", std::to_string(n_ranks)}, {"loop.steps", "8"}});
  EXPECT_TRUE(scenario.ok()) << scenario.error().text();
  return std::move(scenario).value();
}

/// What the scenario's ranks do as threads over the emulation. `flip`: "RANK:STEP:TENSOR".
LoadedTrace run_emulated(const Scenario& scenario,
                         const Emulation& emulation,
                         const std::string& flip = {}) {
  const TempFolder rendezvous;
  const TempFolder traces;
  emulation_in_use() = &emulation;
  testing::run_threads(scenario.n_ranks, [&](std::int32_t rank) {
    RankSessionOptions options;
    options.backend.place.rank = rank;
    options.backend.place.world_size = scenario.n_ranks;
    options.backend.rendezvous = rendezvous.path();
    options.judge = false;
    options.trace = traces.path();
    options.laws = scenario.session.laws;
    options.policy = scenario.session.policy;
    std::unique_ptr<LoopHook> hook;
    if (!flip.empty() && parse_bit_flip(flip).value().rank == rank) {
      hook = make_bit_flip(parse_bit_flip(flip).value());
    }
    const auto run = run_this_rank({"nccl", connect_emulated}, options, [&](RankContext& context) {
      run_rank(scenario, context, hook.get());
    });
    ASSERT_TRUE(run.ok()) << run.error().text();
  });
  Result<LoadedTrace> loaded = read_jsonl(traces.path());
  EXPECT_TRUE(loaded.ok()) << loaded.error().text();
  return std::move(loaded).value();
}

std::string verdict_on(const Scenario& scenario, const LoadedTrace& real) {
  const auto orders = legal_orders("nccl", scenario);
  const Result<OrderSearch> search = search_order(scenario, *real.trace, orders);
  EXPECT_TRUE(search.ok()) << search.error().text();
  return render(search.value(), "nccl", scenario.n_ranks);
}

TEST(EmulatedNcclCrosscheck, TrainingAgreesEventByEvent) {
  for (const auto& [job, n_ranks] : {std::pair{"mlp", 3},
                                     std::pair{"mlp", 4},
                                     std::pair{"batch_norm", 3},
                                     std::pair{"gpt", 2}}) {
    const Scenario scenario = scenario_of(job, n_ranks);
    const std::string verdict = verdict_on(scenario, run_emulated(scenario, Emulation()));
    EXPECT_TRUE(verdict.starts_with("equal: ")) << job << " " << verdict;
    EXPECT_NE(verdict.find("sim (nccl-ring) and nccl"), std::string::npos) << verdict;
    EXPECT_EQ(verdict.find("inside the legal set"), std::string::npos) << verdict;
    EXPECT_EQ(verdict.find("use three") != std::string::npos, n_ranks == 2) << verdict;
  }
}

// Another ring than the expected one is found and named.
TEST(EmulatedNcclCrosscheck, AnotherRingIsInsideTheLegalSet) {
  const Scenario scenario = scenario_of("mlp", 3);
  const Emulation emulation({.ring = {0, 2, 1}});
  const std::string verdict = verdict_on(scenario, run_emulated(scenario, emulation));
  EXPECT_TRUE(verdict.starts_with("equal: ")) << verdict;
  EXPECT_NE(verdict.find("sim (nccl-ring:0,2,1) and nccl; inside the legal set"), std::string::npos)
      << verdict;
}

// One flipped bit is in no legal set, and the place is named.
TEST(EmulatedNcclCrosscheck, AFlippedBitIsImpossible) {
  const Scenario scenario = scenario_of("mlp", 3);
  const std::string verdict =
      verdict_on(scenario, run_emulated(scenario, Emulation(), "2:3:2.weight"));
  EXPECT_TRUE(verdict.starts_with(
      "first difference: sync 3, step 3, grad inc, tensor `2.weight`, rank 2\n"))
      << verdict;
  EXPECT_NE(verdict.find("impossible: none of the "), std::string::npos) << verdict;
}

TEST(EmulatedNcclCrosscheck, AScenarioMaySayTheOrder) {
  Scenario scenario = scenario_of("mlp", 3);
  scenario.session.group.order = parse_reduction_order("nccl-ring:0,2,1").value();
  const Emulation emulation({.ring = {0, 2, 1}});
  const std::string verdict = verdict_on(scenario, run_emulated(scenario, emulation));
  EXPECT_EQ(verdict.find("inside the legal set"), std::string::npos) << verdict;
}

TEST(EmulatedNcclCrosscheck, GlooHasOneOrderAndNcclListsItsOwnOnce) {
  const Scenario scenario = scenario_of("mlp", 4);
  EXPECT_EQ(legal_orders("gloo", scenario).size(), 1U);
  const auto orders = legal_orders("nccl", scenario);
  // Six rings of four ranks, the ascending one under two names; for Simple (whose one channel is the first of
  // these) and LL 1 to 8 channels of rings, and of trees that repeat after 2, 4 or 8, which one channel cannot.
  constexpr std::size_t kTrees = 1 + 7 * 3;
  EXPECT_EQ(orders.size(), 1U + 5U + (7U + kTrees) + (8U + kTrees));
  EXPECT_EQ(orders.front().name(), "nccl-ring");
  EXPECT_EQ(legal_orders("nccl", scenario_of("mlp", 2)).size(), 1U);
}

}  // namespace
}  // namespace lockstep
