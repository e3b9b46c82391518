// fault, world.max_restarts, sim.watchdog_ns, expect.restarts: what is read, and what is refused.
#include <algorithm>
#include <gmock/gmock.h>

#include "lockstep/harness/run/expect.h"
#include "lockstep/harness/run/run_scenario.h"
#include "lockstep/harness/scenario/scenario.h"

#include "tests/support/scenario_files.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class FaultReader : public ScenarioFiles {
 protected:
  static std::string with(const std::string& lines) {
    return "format = 1\nmodel = { kind = \"scalar\" }\n"
           "data = { kind = \"inline\", rows = [ { x = [1], y = [0] }, { x = [2], y = [0] } ] }\n"
           "loop = { steps = 2 }\n" +
           lines;
  }

  static std::string complaint(const std::string& lines) { return error_of(with(lines)); }
};

TEST_F(FaultReader, ReadsRankFaults) {
  const auto loaded = load(with(
      "world = { ranks = 3, max_restarts = 2, ranks_after_restart = [2], reassign = true }\n"
      "sim = { watchdog_ns = 77 }\n"
      "fault = [ { kind = \"crash\", how = \"oom\", ranks = [0, 2], attempt = 1, "
      "            at = { step = 1, event = \"all_reduce\", nth = 2, when = \"completed\" } },\n"
      "          { kind = \"hang\", ranks = [1], time_ns = 9 },\n"
      "          { kind = \"clock-skew\", ranks = [1], skew_ns = -5 } ]\n"
      "expect = { restarts = 1, final_state = { equals_variant = \"\" } }\n"));
  ASSERT_TRUE(loaded.ok()) << loaded.error().text();
  const sim::SessionOptions& session = loaded.value().session;
  ASSERT_EQ(session.faults.size(), 3U);
  const sim::Fault& last = session.faults[1];
  EXPECT_EQ(last.kind, sim::FaultKind::kOutOfMemory);
  EXPECT_EQ(last.rank, 2);
  EXPECT_EQ(last.attempt, 1);
  EXPECT_EQ(last.step, 1);
  EXPECT_EQ(last.at, sim::Occasion(CollectiveOp::kAllReduce));
  EXPECT_EQ(last.nth, 2);
  EXPECT_EQ(last.when, CollectivePhase::kCompleted);
  EXPECT_EQ(session.faults[2].time->ns, 9);
  EXPECT_EQ(session.agent->max_restarts, 2);
  EXPECT_EQ(session.agent->n_ranks_of(1, 3), 2);
  EXPECT_TRUE(session.agent->reassign);
  EXPECT_EQ(session.group.watchdog.ns, 77);
  EXPECT_EQ(session.clock_skews.at(1).ns, -5);
  EXPECT_EQ(loaded.value().expect.restarts, 1);
  EXPECT_EQ(loaded.value().expect.final_state, "");
}

TEST_F(FaultReader, ASwarmIsDrawnFromItsSeed) {
  const auto faults = [&](const std::string& swarm) {
    const auto loaded = load(with("world = { ranks = 3 }\nswarm = { " + swarm + " }"));
    EXPECT_TRUE(loaded.ok()) << loaded.error().text();
    std::string all;
    for (const sim::Fault& fault : loaded.value().session.faults) {
      EXPECT_TRUE(fault.attempt == 0 && fault.rank < 3 && fault.step.value_or(0) < 2);
      all += describe(fault) + "\n";
    }
    return all;
  };
  EXPECT_EQ(faults("seed = 4, faults = 9"), faults("seed = 4, faults = 9"));
  EXPECT_NE(faults("seed = 4, faults = 9"), faults("seed = 5, faults = 9"));
  const std::string stale = faults("faults = 20, kinds = [\"stale\"]");
  EXPECT_EQ(std::count(stale.begin(), stale.end(), '\n'), 20);
  EXPECT_THAT(stale, HasSubstr("rank 2: stale at all_reduce 0 of step 1"));
  // No rank computes for any time, and none writes: what cannot strike is not drawn.
  const std::string any = faults("faults = 1000");
  for (const std::string_view kind : {"sigterm", "out-of-memory", "hang", "late", "corrupt"}) {
    EXPECT_THAT(any, HasSubstr(std::string(kind)));
  }
  EXPECT_THAT(any, AllOf(Not(HasSubstr("slow")), Not(HasSubstr("disk")), Not(HasSubstr("torn"))));
}

TEST_F(FaultReader, RefusesASwarmThatCannotStrike) {
  const std::string world = "world = { ranks = 2 }\n";
  EXPECT_THAT(complaint(world + "swarm = { kinds = [\"stael\"] }"),
              HasSubstr(":6:19: a swarm has no 'stael'; did you mean 'stale'?"));
  EXPECT_THAT(complaint(world + "swarm = { kinds = [] }"), HasSubstr("needs a kind of fault"));
  EXPECT_THAT(complaint(world + "swarm = { fault = 3 }"), HasSubstr("did you mean 'faults'?"));
  EXPECT_THAT(complaint(world + "swarm = { steps = 0 }"), HasSubstr("swarm.steps"));
}

TEST_F(FaultReader, RefusesWithPlaceAndSuggestion) {
  const std::string world = "world = { ranks = 2 }\n";
  EXPECT_THAT(complaint(world + "fault = [ { kind = \"hangs\", ranks = [1], at = { step = 0 } } ]"),
              HasSubstr(":6:20: unknown fault 'hangs'; did you mean 'hang'?"));
  EXPECT_THAT(complaint(world + "fault = [ { kind = \"hang\", at = { step = 0 } } ]"),
              HasSubstr("a fault needs 'ranks'"));
  EXPECT_THAT(complaint(world + "fault = [ { kind = \"hang\", ranks = [1] } ]"),
              HasSubstr("a fault needs a place"));
  EXPECT_THAT(complaint(world + "fault = [ { kind = \"hang\", ranks = [2], at = { step = 0 } } ]"),
              HasSubstr("rank 2"));
  EXPECT_THAT(
      complaint(world +
                "fault = [ { kind = \"hang\", ranks = [1], at = { event = \"al_reduce\" } } ]"),
      HasSubstr("did you mean 'all_reduce'?"));
  EXPECT_THAT(
      complaint(world + "fault = [ { kind = \"hang\", ranks = [1], how = \"oom\", at = {} } ]"),
      HasSubstr("'how'"));
  EXPECT_THAT(complaint(world + "fault = [ { kind = \"slow\", ranks = [1], factor = 2.0 } ]"),
              HasSubstr("add sim.compute"));
  EXPECT_THAT(
      complaint(world + "fault = [ { kind = \"hang\", ranks = [1], at = {}, time_ns = 3 } ]"),
      HasSubstr("either 'at' or 'time_ns'"));
  EXPECT_THAT(complaint("world = { ranks = 2, reassign = true }\n"),
              HasSubstr("'world.reassign' needs 'max_restarts'"));
  EXPECT_THAT(complaint("world = { ranks = 2, max_restarts = 1, ranks_after_restart = [3] }\n"),
              HasSubstr("a restarted world has 1 to 2 ranks"));
  EXPECT_EQ(complaint(world + "fault = [ { kind = \"hang\", ranks = [1], time_ns = 3 } ]"),
            "no error");
}

// Expectations are compared: wrong ones are reported.
TEST_F(FaultReader, ExpectationsAreCompared) {
  const std::string job =
      "world = { ranks = 2, max_restarts = 1 }\n"
      "fault = [ { kind = \"crash\", ranks = [1], at = { step = 1 } } ]\n";
  const auto scenario =
      load(with(job + "expect = { restarts = 0, final_state = { equals_variant = \"longer\" } }\n"
                      "variant.longer = { loop = { steps = 3 }, fault = [] }\n"));
  ASSERT_TRUE(scenario.ok()) << scenario.error().text();
  const auto result = run_scenario(scenario.value(), {});
  ASSERT_TRUE(result.ok());
  EXPECT_THAT(
      texts_of(unmet(scenario.value(), result.value())),
      ::testing::ElementsAre("the job was restarted 1 times, expected 0",
                             "rank 0 does not end with the parameters of variant 'longer'"));
}

}  // namespace
}  // namespace lockstep
