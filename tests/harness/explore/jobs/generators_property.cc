// The generators as a user has them: a property that holds, and planted bugs that come out small.
#include <algorithm>
#include <gmock/gmock.h>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "lockstep/rapidcheck.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

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

RC_GTEST_PROP(ScheduleProperty, EveryDrawnNameIsASchedule, ()) {
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
  EXPECT_EQ(last.hook, HookKind::kNone);
  EXPECT_EQ(last.fault, SketchFault::kNone);
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

TEST(GeneratorsTest, ShrinkingManyFaultsLeavesTheOneThatMatters) {
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

/// What RapidCheck prints about a property.
template <typename Property>
std::string printed_by(const Property& property) {
  ::testing::internal::CaptureStderr();
  const bool holds = rc::check(property);
  return (holds ? "holds: " : "falsified: ") + ::testing::internal::GetCapturedStderr();
}

/// Every world of two ranks or more breaks a law.
void differ(RankContext& context) {
  std::vector<float> data(context.rank() == 1 ? 5 : 4, 1.0F);
  context.world().all_reduce(Memory::of(std::span<float>(data))).wait_or_throw();
}

TEST(LawsHoldInAPropertyTest, AFailureHasVerdictFindingAndReplayToken) {
  std::string token;
  const std::string printed = printed_by([&token] {
    const RunOptions world = *gen::world(2, 6);
    const RunResult<void> run = run_ranks(world, differ);
    token = run.replay_token();
    RC_ASSERT_LAWS_HOLD(run);
  });

  EXPECT_THAT(printed, StartsWith("falsified: "));
  EXPECT_THAT(printed, HasSubstr("run_ranks (2 ranks): findings: 1 law broken"));
  EXPECT_THAT(printed, HasSubstr("Likely cause: shape-mismatch-completes. "));
  EXPECT_THAT(printed, HasSubstr("(law COLLECTIVES-MATCH)"));
  EXPECT_THAT(printed, HasSubstr("RunOptions::replay = \"" + token + "\""));
  EXPECT_THAT(printed, HasSubstr("generators_property.cc:"));
  EXPECT_FALSE(token.empty());
}

TEST(LawsHoldInAPropertyTest, IsSilentWhereTheLawsHold) {
  const std::string printed =
      printed_by([] { RC_ASSERT_LAWS_HOLD(sum_of_ranks({.ranks = *rc::gen::inRange(1, 5)})); });
  EXPECT_THAT(printed, StartsWith("holds: "));
  EXPECT_THAT(printed, Not(HasSubstr("Replay:")));
}

/// RapidCheck's own verdicts go through a run as what they are.
TEST(LawsHoldInAPropertyTest, AnAssertionInsideARankIsRapidChecksOwn) {
  const auto asserting = [](bool rethrow) {
    return [rethrow] {
      RunOptions world = *gen::world(2, 3);
      world.rethrow = rethrow;
      RC_ASSERT_LAWS_HOLD(
          run_ranks(world, [](RankContext& context) { RC_ASSERT(context.rank() != 1); }));
    };
  };
  EXPECT_THAT(printed_by(asserting(true)), HasSubstr("context.rank() != 1"));
  const std::string logged = printed_by(asserting(false));
  EXPECT_THAT(logged, HasSubstr("context.rank() != 1"));
  EXPECT_THAT(logged, HasSubstr("run_ranks (2 ranks): error: rank 1: "));
  EXPECT_THAT(logged, HasSubstr("RunOptions::replay = "));
}

TEST(LawsHoldInAPropertyTest, ADiscardInsideARankIsNotAFailure) {
  const std::string printed = printed_by([] {
    const int value = *rc::gen::inRange(0, 4);
    RC_ASSERT_LAWS_HOLD(
        run_ranks({.ranks = 2, .rethrow = false}, [value](RankContext&) { RC_PRE(value != 3); }));
  });
  EXPECT_THAT(printed, StartsWith("holds: "));
}

}  // namespace
}  // namespace lockstep
