// The generators as a user has them: a property that holds, and planted bugs that come out small.
#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "lockstep/explore/generators/rapidcheck.h"

namespace lockstep {
namespace {

RC_GTEST_PROP(CorrectJobProperty, NoLawComplains, ()) {
  const JobSketch job = *gen::correct_job();

  RC_ASSERT(complaint_about(job) == "");
}

/// What every rank holds after adding up one more than each rank's number.
RunResult<float> sum_of_ranks(const RunOptions& options) {
  return run_ranks(options, [](RankContext& context) {
    float value = static_cast<float>(context.rank()) + 1.0F;
    context.world().all_reduce(Memory::of(std::span<float>(&value, 1))).wait_or_throw();
    return value;
  });
}

bool all_are(const RunResult<float>& run, float wanted) {
  return std::all_of(run.results.begin(), run.results.end(), [&](const std::optional<float>& got) {
    return got == wanted;
  });
}

RC_GTEST_PROP(WorldProperty, SumsAreRightUnderAnyScheduleAndWithLateRanks, ()) {
  RunOptions world = *gen::world(1, 6);
  world.faults = *gen::faults(
      {.n_faults = 2, .n_ranks = world.ranks, .n_events = 2, .kinds = {sim::FaultKind::kLate}});

  const RunResult<float> run = sum_of_ranks(world);

  RC_ASSERT(run.ok());
  RC_ASSERT(all_are(run, static_cast<float>(world.ranks * (world.ranks + 1)) / 2.0F));
}

RC_GTEST_PROP(ScheduleProperty, EveryNameIsOne, ()) {
  const std::string name = *gen::schedule();

  RC_ASSERT(sum_of_ranks({.ranks = 3, .strategy = name}).ok());
}

// Negative twins: a bug of one rank is found, and little is left of the job around it.
TEST(GeneratorsTest, APlantedBugIsFoundAndShrunkToFewRanks) {
  const Inspection buggy = {
      .settings = {
          {"bug",
           R"([{ kind = "scale-gradient", ranks = [1], factor = 3.0, at = { event = "backward" } }])"}}};
  JobSketch last;

  const bool holds = rc::check([&] {
    const JobSketch job = *gen::correct_job();
    if (complaint_about(job, buggy).empty()) return;
    last = job;
    RC_FAIL("a law complains");
  });

  EXPECT_FALSE(holds);
  EXPECT_LE(last.ranks, 3);
  EXPECT_EQ(last.epochs, 1);
  EXPECT_EQ(last.hook, "none");
  EXPECT_EQ(last.mishap, "none");
}

TEST(GeneratorsTest, AWorldThatIsTooLargeIsShrunkToTheSmallestThatIs) {
  RunOptions last;

  const bool holds = rc::check([&] {
    const RunOptions world = *gen::world(1, 8);
    if (world.ranks < 3) return;
    last = world;
    RC_FAIL("three ranks are too many");
  });

  EXPECT_FALSE(holds);
  EXPECT_EQ(describe(last), "3 ranks, run-to-block, rank, rendezvous");
}

TEST(GeneratorsTest, OfManyFaultsTheOneThatMattersIsLeft) {
  const sim::SwarmOptions scope = {.n_faults = 5, .n_ranks = 4, .n_events = 50};
  std::vector<sim::Fault> last;

  const bool holds = rc::check([&] {
    const std::vector<sim::Fault> plan = *gen::faults(scope);
    const bool fails = std::any_of(
        plan.begin(), plan.end(), [](const sim::Fault& fault) { return fault.rank == 2; });
    if (!fails) return;
    last = plan;
    RC_FAIL("rank 2 is hit");
  });

  EXPECT_FALSE(holds);
  ASSERT_EQ(last.size(), 1U);
  EXPECT_EQ(last[0].rank, 2);
}

}  // namespace
}  // namespace lockstep
